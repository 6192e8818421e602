"""The preparation: looks at every row of a data set once and writes the run's index.

No TensorFlow here. Run as a child of the launcher: python -m data_worker.preparation --run RUN
"""
