"""Broken and malicious model files, made without the code that reads them."""
