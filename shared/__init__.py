"""What every process of Tandem shares; nothing here imports TensorFlow or librosa."""
