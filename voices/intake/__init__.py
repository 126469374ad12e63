"""What happens to an uploaded clip: decoded, checked, cut, coded. All of it runs in a process of its own."""
