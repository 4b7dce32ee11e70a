"""mase-hw: from a PyTorch model to SystemVerilog that is proved equal to it, bit for bit."""
