"""Models that were trained elsewhere: published shapes, files, weights and tokenizers."""
