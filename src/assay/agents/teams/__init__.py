"""Teams: several actors with roles, channels and permissions that act in turn in one attempt."""
