"""What the rows of a survey come to: groups, shared causes, two surveys side by side."""
