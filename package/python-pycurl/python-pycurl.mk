################################################################################
#
# python-pycurl
#
################################################################################

PYTHON_PYCURL_VERSION = REL_7_45_7
PYTHON_PYCURL_SITE = https://github.com/pycurl/pycurl.git
PYTHON_PYCURL_SITE_METHOD = git
PYTHON_PYCURL_SETUP_TYPE = setuptools
PYTHON_PYCURL_LICENSE = LGPL-2.1+ or MIT
PYTHON_PYCURL_LICENSE_FILES = COPYING-LGPL COPYING-MIT
PYTHON_PYCURL_DEPENDENCIES = libcurl
PYTHON_PYCURL_ENV = \
	PYCURL_CURL_CONFIG=$(STAGING_DIR)/usr/bin/curl-config \
	PYCURL_SSL_LIBRARY=openssl

# From git: what a release has ready is made.
define PYTHON_PYCURL_MAKE_DOCSTRINGS
	cd $(@D) && $(HOST_DIR)/bin/python3 setup.py docstrings
endef
PYTHON_PYCURL_PRE_BUILD_HOOKS += PYTHON_PYCURL_MAKE_DOCSTRINGS

$(eval $(python-package))
