"""What all pages are made of: routes, shapes, errors, the controller's client."""
