"""The craze adapter: a machine's sessions and one session, through craze's hub."""
