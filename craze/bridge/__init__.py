"""`craze bridge`: a session's socket on stdin and stdout."""
