"""Goals: policies and objectives, and what a run says about them."""
