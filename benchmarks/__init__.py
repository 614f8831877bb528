"""Speed, scale and memory of the engine, against a plain PyTorch loop. Run ``python -m benchmarks.throughput``."""
