"""`craze-shed`: the lanes of any machine, from a shell."""
