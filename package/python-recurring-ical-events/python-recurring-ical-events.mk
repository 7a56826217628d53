################################################################################
#
# python-recurring-ical-events
#
################################################################################

PYTHON_RECURRING_ICAL_EVENTS_VERSION = 3.8.2
PYTHON_RECURRING_ICAL_EVENTS_SOURCE = recurring_ical_events-$(PYTHON_RECURRING_ICAL_EVENTS_VERSION).tar.gz
PYTHON_RECURRING_ICAL_EVENTS_SITE = https://files.pythonhosted.org/packages/b9/f5/898abd8fbb25766ec6cb17b244730ebf192f47963c71eeacd61aadd903a1
PYTHON_RECURRING_ICAL_EVENTS_SETUP_TYPE = hatch
PYTHON_RECURRING_ICAL_EVENTS_LICENSE = LGPL-3.0+
PYTHON_RECURRING_ICAL_EVENTS_LICENSE_FILES = LICENSE
PYTHON_RECURRING_ICAL_EVENTS_DEPENDENCIES = host-python-hatch-vcs

$(eval $(python-package))
