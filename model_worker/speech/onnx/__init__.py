"""A trained voice as ONNX files, which any runtime of ONNX speaks without TensorFlow."""
