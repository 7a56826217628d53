"""The parts that all pages share: routes, shapes, errors, the controller's client."""
