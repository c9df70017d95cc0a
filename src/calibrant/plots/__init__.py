"""Pictures: ``compute_*`` returns numbers, ``draw_*`` draws them."""
