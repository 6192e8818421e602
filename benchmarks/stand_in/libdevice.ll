; In the place of CUDA's library of functions for devices: XLA wants to link one.
target triple = "nvptx64-nvidia-cuda"
