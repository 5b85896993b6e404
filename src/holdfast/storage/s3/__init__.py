"""The store in a bucket: S3 and what speaks like it, by conditional writes alone."""
