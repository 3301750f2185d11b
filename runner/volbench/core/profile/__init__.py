"""Volume SPECs and profiles: parsed, checked and resolved, without touching the machine."""
