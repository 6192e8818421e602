"""A server that speaks, on ONNX files and without TensorFlow."""
