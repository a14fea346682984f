"""The paper's experiments, reproduced, and that of `consilience demo`: data, models, runs, tables and figures."""
