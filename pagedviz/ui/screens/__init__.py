"""One module for each screen: read the view, call views, place what they return."""
