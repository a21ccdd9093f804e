"""The ground that every other module stands on."""
