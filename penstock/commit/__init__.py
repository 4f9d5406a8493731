"""How a change becomes visible: all or nothing."""
