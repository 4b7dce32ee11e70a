"""Matrix products: layers and products of two tensors."""
