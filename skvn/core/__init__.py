"""Vector-Network mathematics on torch tensors."""
