"""The store in a bucket: S3 and compatible services, by conditional writes alone."""
