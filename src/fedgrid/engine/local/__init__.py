"""What one client does at a batch, and the two executors that run it for many clients."""
