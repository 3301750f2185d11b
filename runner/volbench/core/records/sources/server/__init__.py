"""Sources that the server keeps."""
