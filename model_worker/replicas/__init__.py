"""Several model processes that train one model: who has which batch, and how they stay the same."""
