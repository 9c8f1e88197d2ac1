"""Protocol 1 without I/O: framing, JSON, envelope, codes, limits, methods, params and documents."""
