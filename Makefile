# Naproxy. `make help` lists what there is to make.

BUILD := build
PYTHON := .venv/bin/python
# The virtual office needs network namespaces, and so root.
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo -E)
# Names of tests are relative to this folder, so each can be run again as it is printed.
# .pytest.ini explains the marks. LONG=1 also runs the tests marked long.
PYTEST := $(PYTHON) -m pytest -q --rootdir . -m "not alone$(if $(LONG),, and not long)"

# Varnish and others are in /usr/sbin, which is not on an ordinary user's PATH.
export PATH := $(PATH):/usr/sbin:/sbin
# What root compiles lies there too, and not all over a tree that is somebody's own.
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(BUILD)/pycache
# The tests start Python a thousand times: it must find there what it has compiled.
unexport PYTHONDONTWRITEBYTECODE

PY_ROOMS := board package varnish-vcl webui tests
JS_ROOMS := webui/src/naproxy_webui/static/js varnish-vcl/pages package/naproxy-meter/tests tests/cache_tests
NPM := $(BUILD)/npm
BIOME := .venv/bin/node $(NPM)/node_modules/@biomejs/biome/bin/biome
TSC := .venv/bin/node $(NPM)/node_modules/typescript/bin/tsc
SHELL_SCRIPTS = $(shell git ls-files -s | sed -n 's,^100[0-9]* [^\t]*\t,,p' | xargs awk '/^\#!\/bin\/(ba)?sh/ { print FILENAME } { nextfile }')

.PHONY: help
help: ## this list
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

# ---------------------------------------------------------------- preparation

$(BUILD)/.packages: tests/packages.txt tests/install-packages
	@mkdir -p $(BUILD)
	@tests/install-packages
	@touch $@

.venv/.ready: $(BUILD)/.packages tests/requirements.txt package/naproxy/pyproject.toml \
    package/naproxy-meter/pyproject.toml webui/pyproject.toml
	@echo "Installing a Python environment in .venv"
	@/usr/bin/python3 -m venv .venv
	@$(PYTHON) -m pip install -q --disable-pip-version-check -r tests/requirements.txt
	@echo "Adding the project's own programs to it"
	@$(PYTHON) -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps \
	    -e package/naproxy -e package/naproxy-meter -e webui
	@touch $@

TEXTS := $(wildcard package/naproxy/src/naproxy/locale/*/*/*.po webui/src/naproxy_webui/locale/*/*/*.po)
$(BUILD)/.texts: $(TEXTS) package/compile_texts.py .venv/.ready
	@$(PYTHON) package/compile_texts.py $(if $(filter %.py %.ready,$?),$(TEXTS),$(filter %.po,$?))
	@touch $@

PAGE_H := package/naproxy/src/naproxy/core/page_h.py
$(PAGE_H): package/naproxy/page_h.py package/libvmod-naproxy/src/naproxy_page.h
	@python3 package/naproxy/page_h.py package/libvmod-naproxy/src/naproxy_page.h $@

HELP := webui/src/naproxy_webui/help
$(HELP)/index.json: webui/help.py docs/site/mkdocs.yml $(wildcard docs/*.md docs/recipes/*.md) .venv/.ready
	@$(PYTHON) webui/help.py $(HELP)

# Packages and cache lie in build: no home need be writable.
$(NPM)/.ready: tests/package.json tests/package-lock.json | .venv/.ready
	@echo "Installing what reads JavaScript in $(NPM)"
	@mkdir -p $(NPM)
	@cp tests/package.json tests/package-lock.json $(NPM)
	@.venv/bin/npm --prefix $(NPM) --cache $(NPM)/cache ci --silent --ignore-scripts --no-audit --no-fund
	@touch $@

.PHONY: prepare build
prepare: .venv/.ready $(PAGE_H) $(BUILD)/.texts $(HELP)/index.json ## install what building and testing need

build: prepare ## compile the VMOD, render the VCL, fetch MicroPython for tests
	@$(MAKE) --no-print-directory -C package/libvmod-naproxy
	@$(MAKE) --no-print-directory -C varnish-vcl all
	@$(MAKE) --no-print-directory -C package/naproxy-meter ready

# ----------------------------------------------------------------------- test

# Four targets run at a time, the longest first. A target that fails stops no other.
# BUILT: empty once it is built.
BUILT := build
TESTS := test-browser test-e2e test-unit test-demo test-webui test-vmod test-vcl test-image-parts test-faults test-office test-meter test-history lint

.PHONY: test test-all $(TESTS) test-clean test-properties test-recipes test-traffic test-week test-many test-measure test-large test-agree test-powercut test-compat test-deb test-container test-guest test-collections test-calendars cache-tests
test: build ## run all tests but those marked long: 10 minutes on two cores when it was measured
	@echo "Testing, four targets at a time; each speaks when it has ended:"
	@echo "  $(TESTS)"
	@bash -o pipefail -c '"$$@" 2>&1 | tee $(BUILD)/test.log' - \
	    $(MAKE) --no-print-directory -k -j4 --output-sync=target BUILT= $(TESTS) || \
	    { echo "What failed, and how to run just that again:"; $(PYTHON) tests/failures.py $(BUILD)/test.log; exit 1; }

test-all: ## run the tests marked long too, and test-measure; nobody has measured how long it takes
	@$(MAKE) --no-print-directory test LONG=1
	@$(MAKE) --no-print-directory test-measure

test-clean: ## the README's commands in a new Debian 12, as a new user [TIMES=n] [BUSY=n] [PLACE=dir]
	$(AS_ROOT) tests/clean_room/run $(if $(TIMES),--times $(TIMES)) $(if $(BUSY),--busy $(BUSY)) \
	    $(if $(PLACE),--place "$(PLACE)")

lint: $(BUILT) $(NPM)/.ready ## style, types, and no more broken rules of plain English than before
	.venv/bin/ruff check -q $(PY_ROOMS)
	.venv/bin/ruff format -q --check $(PY_ROOMS)
	.venv/bin/lint-imports --no-cache --config tests/rooms.ini
	.venv/bin/mypy package/naproxy/src
	.venv/bin/mypy tests
	.venv/bin/mypy -p naproxy_meter
	.venv/bin/mypy board
	.venv/bin/mypy webui/src webui/types
	.venv/bin/mypy webui/help.py
	.venv/bin/mypy package/compile_texts.py
	$(BIOME) check --error-on-warnings $(JS_ROOMS)
	! LC_ALL=C.UTF-8 grep -rnP --include='*.js' --include='*.mjs' '^(\t|[^\t]{4}){25}.' $(JS_ROOMS)
	$(PYTHON) webui/types/declare.py $(BUILD)/types/api.d.ts
	$(TSC) -p webui
	$(TSC) -p package/naproxy-meter/tests
	shellcheck $(SHELL_SCRIPTS)
	$(PYTHON) -m tests.prose --check

test-unit: $(BUILT) ## the controller's and the agent's own tests [ROOM=drivers: one folder's]
	$(AS_ROOT) $(PYTEST) -n 3 --dist loadfile package/naproxy/tests$(ROOM:%=/%)
	$(if $(ROOM),,$(AS_ROOT) $(PYTEST) package/naproxy-agent/tests)

test-properties: prepare ## the controller's property tests with 10,000 new examples each; not part of test
	$(PYTEST) -n 2 -m hypothesis --hypothesis-profile=large package/naproxy/tests

test-webui: $(BUILT) ## the web interface's own tests
	$(AS_ROOT) $(PYTEST) -n 2 --dist loadfile webui/tests

test-browser: $(BUILT) ## the web interface in Chromium, before a real controller with a made past
	$(AS_ROOT) $(PYTEST) -n 2 --dist loadfile tests/webui

test-image-parts: $(BUILT) ## the image's fragments, recipes, boot and start scripts, without Buildroot
	$(AS_ROOT) $(PYTEST) -n 3 --dist loadfile tests/image

test-vmod: $(BUILT) ## the list of crawlers, varnishtest of the VMOD
	@$(MAKE) --no-print-directory -C package/crawlers check
	@$(MAKE) --no-print-directory -C package/libvmod-naproxy check

test-vcl: $(BUILT) ## varnishtest of the VCL, hostile requests
	@$(MAKE) --no-print-directory -C varnish-vcl check
	$(PYTEST) tests/cache_tests

test-meter: $(BUILT) ## the meter's firmware, in CPython and in MicroPython, and how the box installs it
	@$(MAKE) --no-print-directory -C package/naproxy-meter check
	$(PYTEST) -n 2 --dist worksteal tests/pico

test-history: $(BUILT) ## what a kill and a power cut cost the history, 20 of each
	CUTS=20 $(AS_ROOT) $(PYTEST) tests/powercut

test-powercut: prepare ## the same, 200 of each: two minutes
	$(AS_ROOT) $(PYTEST) -s tests/powercut

test-office: $(BUILT) ## the virtual office and the generated history
	$(AS_ROOT) $(PYTEST) -n 2 --dist loadfile tests/simulator/office tests/simulator/past tests/test_failures.py

test-e2e: $(BUILT) ## the whole box in the virtual office
	$(AS_ROOT) $(PYTEST) -n 2 --dist loadfile tests/e2e

test-measure: build ## the tests marked alone, which measure times and power: two minutes; not part of test
	$(AS_ROOT) $(PYTEST) -m alone tests/e2e tests/experiments

$(BUILD)/.recipes: tests/recipes/packages.txt tests/recipes/requirements.txt tests/install-packages | .venv/.ready
	@mkdir -p $(BUILD)/recipes
	@tests/install-packages tests/recipes/packages.txt
	@$(PYTHON) -m pip install -q --disable-pip-version-check --upgrade --target $(BUILD)/recipes/python -r tests/recipes/requirements.txt
	@touch $@

$(BUILD)/.traffic: tests/traffic/packages.txt tests/traffic/requirements.txt tests/traffic/package.json tests/traffic/package-lock.json tests/install-packages | .venv/.ready
	@mkdir -p $(BUILD)/traffic
	@tests/install-packages tests/traffic/packages.txt
	@cp tests/traffic/package.json tests/traffic/package-lock.json $(BUILD)/traffic
	@$(PYTHON) -m pip install -q --disable-pip-version-check --upgrade --target $(BUILD)/traffic/python -r tests/traffic/requirements.txt
	@.venv/bin/npm --prefix $(BUILD)/traffic --cache $(BUILD)/traffic/cache ci --silent --ignore-scripts --no-audit --no-fund
	@touch $@

$(BUILD)/.many: tests/many/packages.txt tests/install-packages
	@mkdir -p $(BUILD)
	@tests/install-packages tests/many/packages.txt
	@touch $@

$(BUILD)/many/home-assistant/.ready: tests/many/home-assistant.txt
	@rm -rf $(@D)
	python3 -m venv $(@D)
	$(@D)/bin/pip install -q -r $<
	@touch $@

$(BUILD)/many/hawkbit/.ready: $(wildcard tests/many/hawkbit/*/*) tests/many/hawkbit/pom.xml $(BUILD)/.many
	@rm -rf $(@D)
	mvn -q -B -f tests/many/hawkbit/pom.xml dependency:copy-dependencies -DoutputDirectory="$(CURDIR)/$(@D)/lib"
	javac --release 8 -cp '$(@D)/lib/*' -d $(@D)/classes tests/many/hawkbit/app/Fleet.java
	cp -r tests/many/hawkbit/META-INF $(@D)/classes
	@touch $@

test-many: build $(BUILD)/.many $(BUILD)/many/home-assistant/.ready $(BUILD)/many/hawkbit/.ready ## many boxes: Prometheus, Home Assistant, hawkBit (more packages, downloads) [UPDATER=rauc-hawkbit-updater]; not part of test
	$(AS_ROOT) $(if $(UPDATER),env UPDATER="$(UPDATER)") $(PYTEST) tests/many

test-recipes: build $(BUILD)/.recipes ## WordPress, Samba, a cloud and a calendar with their own clients (more packages); not part of test
	$(AS_ROOT) $(PYTEST) tests/recipes

test-traffic: build $(BUILD)/.traffic ## real applications and real heads through the box: FastAPI, Flask, Express, PHP, a language model's API (more packages); not part of test
	$(AS_ROOT) $(PYTEST) tests/traffic

test-week: build $(BUILD)/.recipes ## a week of pages checked on real websites, build/recipes/week.json; not part of test
	$(AS_ROOT) $(PYTHON) -m pytest -q --rootdir . tests/recipes/test_week.py

test-large: build ## bodies of 2 GB by HTTPS, 20 new certificates under way; not part of test
	LARGE_MB=2048 RELOADS=20 $(AS_ROOT) $(PYTEST) tests/e2e/test_https.py \
	    tests/e2e/test_edge_reload.py -k "large or cut_nobody_off"

test-faults: $(BUILT) ## each fault of the campaign once, in a cycle of sleep and wake; a short siege, also by HTTPS
	$(AS_ROOT) $(PYTEST) tests/faults tests/siege tests/bench

test-demo: $(BUILT) ## the demonstration; test-all adds the five configurations
	$(AS_ROOT) $(PYTEST) -n 3 --dist worksteal tests/simulator/demo tests/simulator/five

test-compat: build ## VMOD and VCL on Varnish 7.7 and Vinyl Cache 9.0 (downloads Debian packages)
	@$(MAKE) --no-print-directory -C package/libvmod-naproxy compat

cache-tests: build $(NPM)/.ready ## http-tests/cache-tests; writes docs/cache-tests.md [SUITE=repository] [AGAIN=1]
	@$(AS_ROOT) $(PYTHON) -m tests.cache_tests $(if $(SUITE),--suite "$(SUITE)") $(if $(AGAIN),--again)

COLLECTIONS := $(BUILD)/collections
$(COLLECTIONS)/%:
	@git clone -q --depth 1 https://github.com/$(subst +,/,$(@F)) $@

COLLECTED := networkupstools+nut-ddl DMTF+Redfish-Mockup-Server spyroot+redfish_ctl
test-collections: build $(COLLECTED:%=$(COLLECTIONS)/%) ## meters' drivers against public collections of what devices say; downloads them
	@$(PYTHON) -m tests.dumps --nut $(COLLECTIONS)/networkupstools+nut-ddl \
	    --redfish $(COLLECTIONS)/DMTF+Redfish-Mockup-Server $(COLLECTIONS)/spyroot+redfish_ctl

test-calendars: prepare ## every calendar of four public test suites, against recurring-ical-events (downloads them)
	$(PYTHON) -m tests.calendars $(if $(SOURCES),--sources "$(SOURCES)") $(if $(READER),--reader "$(READER)")

test-agree: build ## the estimator's simulator against the box, three minutes; not part of test [AGREE_S=1200]
	$(AS_ROOT) $(PYTEST) -s tests/agree

$(BUILD)/.deb: tests/deb/packages.txt tests/install-packages
	@mkdir -p $(BUILD)
	@tests/install-packages tests/deb/packages.txt
	@touch $@

test-deb: prepare $(BUILD)/.deb deb ## the Debian packages on fresh Debians that boot; not part of test
	$(AS_ROOT) $(PYTEST) -v tests/deb

$(BUILD)/.container: tests/container/packages.txt tests/container/requirements.txt tests/install-packages
	@mkdir -p $(BUILD)/container
	@tests/install-packages tests/container/packages.txt
	@/usr/bin/python3 -m venv $(BUILD)/container/venv
	@$(BUILD)/container/venv/bin/pip install -q --disable-pip-version-check -r tests/container/requirements.txt
	@touch $@

test-container: build $(BUILD)/.container ## the box in a container, built without a registry, from claim to upgrade (more packages, downloads); not part of test
	$(AS_ROOT) $(PYTEST) -v tests/container

test-guest: build ## real Debians in QEMU sleep and wake (slow; not part of test)
	$(AS_ROOT) $(PYTEST) tests/guest

# ---------------------------------------------------------------------- image

IMAGES := $(BUILD)/image
BUILDROOT = $$(board/common/buildroot $(IMAGES))

.PHONY: deb image release sbom legal-info test-image check-defconfigs check-recipes check-kernel check-instructions
image: ## a board's image with Buildroot BOARD=name [BUILDROOT_DIR=dir] [BR2_DL_DIR=dir]
	board/common/image $(IMAGES) "$(BOARD)"

test-image: build ## start an image in QEMU, update it, break it (an hour) IMAGE=file [BUNDLE=file] [BOARD=name] [FIRMWARE=bios]
	$(AS_ROOT) $(PYTHON) -m tests.image_vm "$(IMAGE)" $(if $(BUNDLE),--bundle "$(BUNDLE)") \
	    $(if $(BOARD),--board $(BOARD)) $(if $(FIRMWARE),--firmware $(FIRMWARE)) $(if $(MINIMAL),--minimal "$(MINIMAL)") $(CASES)

deb: ## Debian packages into build/deb [RELEASE=bookworm|trixie]
	@$(AS_ROOT) debian/build $(RELEASE)

release: ## images, updates and signed checksums of all boards VERSION=x.y.z [BOARDS="name ..."]
	board/common/release.py $(IMAGES) "$(VERSION)" $(BOARDS)

check-instructions: ## no program of a board's image has what a Geode cannot run BOARD=name
	board/common/instructions.py $(IMAGES)/$(BOARD)/images/rootfs.squashfs

sbom: ## what is in a board's image, as CycloneDX BOARD=name [BUILDROOT_DIR=dir] [BR2_DL_DIR=dir]
	board/common/image $(IMAGES) "$(BOARD)" sbom

legal-info: ## licences and sources of a board's image BOARD=name [BUILDROOT_DIR=dir] [BR2_DL_DIR=dir]
	board/common/image $(IMAGES) "$(BOARD)" legal-info

check-defconfigs: ## no symbol that a board asks for is lost in Buildroot's kconfig [BUILDROOT_DIR=dir]
	@dir=$(BUILDROOT) && board/common/check-defconfigs "$$dir" $(IMAGES)/check $(BOARD)

check-recipes: ## Buildroot's check-package over our recipes [BUILDROOT_DIR=dir]
	@dir=$(BUILDROOT) && board/common/check-recipes "$$dir" $(IMAGES)/check-venv

check-kernel: ## no symbol that a board asks for is lost in the kernel's kconfig LINUX_DIR=dir
	@board/common/check-kernel "$(LINUX_DIR)" $(IMAGES)/check $(BOARD)

# --------------------------------------------------------- show and measure

.PHONY: demo faults faults-office siege experiment five bench
demo: build ## the whole appliance in a virtual office [DURATION=s] [LOG=file]
	@$(AS_ROOT) $(PYTHON) -m tests.simulator.demo $(if $(DURATION),--duration $(DURATION)) $(if $(LOG),--log $(LOG))

.PHONY: stage screenshots film
stage: prepare ## the web interface to be looked at, with 30 days of history [DAYS=n] [PORT=n]
	@$(PYTHON) -m tests.webui.stage $(if $(DAYS),--days $(DAYS)) $(if $(PORT),--port $(PORT))

screenshots: prepare ## the docs' pictures of the web interface [ALL=1: every page, width and scheme into build/screenshots]
	@$(PYTHON) -m tests.webui.screenshots $(if $(ALL),--every)

film: build ## a visitor's browser beside the box's page, from sleep to sleep: docs/img/sleep-visit-wake.gif
	@$(AS_ROOT) $(PYTHON) -m tests.simulator.demo.film

faults: build ## 500 cycles with faults, build/faults.json [CYCLES=n] [SEED=n] [MINUTES=n] [ANEW=1]
	@$(AS_ROOT) $(PYTHON) -m tests.faults $(if $(CYCLES),--cycles $(CYCLES)) $(if $(SEED),--seed $(SEED)) \
	    $(if $(MINUTES),--minutes $(MINUTES)) $(if $(ANEW),--anew)

faults-office: build $(BUILD)/.recipes ## 200 sleeps under a cloud's sync, webhooks, orders, copies and backups, build/faults-office.json [CYCLES=n] [SEED=n]
	@$(AS_ROOT) $(PYTHON) -m tests.recipes $(if $(CYCLES),--cycles $(CYCLES)) $(if $(SEED),--seed $(SEED))

siege: build ## attacks on the box while others are served, ten minutes, build/siege.json [ATTACKS="name ..."] [SECONDS=n] [SEED=n]
	@$(AS_ROOT) $(PYTHON) -m tests.siege $(if $(ATTACKS),--attacks $(ATTACKS)) \
	    $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

experiment: build ## an experiment of the papers between two machines of our own NAME=protocols|load [QUICK=1]
	@$(AS_ROOT) $(PYTHON) -m tests.experiments $(NAME) $(BUILD)/experiments/$(NAME)$(if $(QUICK),-quick) \
	    $(if $(QUICK),--quick)

five: build ## the thesis' five configurations on one slice [DURATION=s] [LOG=file]
	@$(AS_ROOT) $(PYTHON) -m tests.simulator.five $(if $(DURATION),--duration $(DURATION)) $(if $(LOG),--log $(LOG))

BENCHES := proxy wake tls edge policy cache transfer engines people estimate meter history webui tasks
bench: $(BENCHES:%=bench-%) ## all benchmarks, results in build/bench/; bench-proxy and the like: docs/performance.md
bench-%: build
	@mkdir -p $(BUILD)/bench
	$(AS_ROOT) $(FIRST_ON_PATH) $(PYTHON) -m tests.bench.$* $(BUILD)/bench/$*.json

$(BUILD)/lighthouse/.ready: $(wildcard tests/bench/lighthouse/*.json) | .venv/.ready
	@echo "Installing Lighthouse in $(@D)"
	@mkdir -p $(@D)
	@cp tests/bench/lighthouse/package.json tests/bench/lighthouse/package-lock.json $(@D)
	@.venv/bin/npm --prefix $(@D) --cache $(@D)/cache ci --silent --ignore-scripts --no-audit --no-fund
	@touch $@
bench-webui: $(BUILD)/lighthouse/.ready

# The modules in which the simulator spends its time, compiled: the same figures, twice as fast.
COMPILED := $(BUILD)/compiled
SIMULATOR := policy/base policy/teacher policy/warming lab/estimate/boxcache lab/estimate/boxsimulation \
    lab/estimate/simulate
$(COMPILED)/.ready: $(shell git ls-files 'package/naproxy/src/naproxy/*.py') tests/bench/packages.txt | build
	@tests/install-packages tests/bench/packages.txt
	@echo "Compiling the simulator in $(@D)"
	@rm -rf $(@D) && mkdir -p $(@D) && cp -r package/naproxy/src/naproxy $(@D)
	@cd $(@D) && $(CURDIR)/.venv/bin/mypyc $(SIMULATOR:%=naproxy/%.py) >mypyc.log 2>&1 || { cat mypyc.log; exit 1; }
	@touch $@
bench-pays: $(COMPILED)/.ready
bench-pays: FIRST_ON_PATH = env PYTHONPATH=$(COMPILED)

# Others' programs, of the versions that docs/audit/ is by. Without Go there is no h2spec.
AUDIT := $(BUILD)/audit
H2SPEC := github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible
$(AUDIT)/.ready: tests/audit/requirements.txt
	@/usr/bin/python3 -m venv $(AUDIT)/venv
	@$(AUDIT)/venv/bin/pip install -q --disable-pip-version-check -r tests/audit/requirements.txt
	@! command -v go >/dev/null || GOBIN=$(CURDIR)/$(AUDIT) GOFLAGS=-modcacherw go install $(H2SPEC)
	@touch $@

.PHONY: audit-tls
audit-tls: build $(AUDIT)/.ready ## what sslyze, h2spec and testssl.sh say of the box's HTTPS; docs/audit [TESTSSL=file]
	@$(AS_ROOT) $(PYTHON) -m tests.audit $(if $(TESTSSL),--testssl "$(TESTSSL)")

# ------------------------------------------------------------------------- docs

$(BUILD)/docs/.ready: docs/site/requirements.txt
	@/usr/bin/python3 -m venv $(BUILD)/docs/venv
	@$(BUILD)/docs/venv/bin/pip install -q --disable-pip-version-check -r docs/site/requirements.txt
	@touch $@

.PHONY: docs
docs: $(BUILD)/docs/.ready ## the pages as one site in build/docs/site, every link checked
	@rm -rf $(BUILD)/docs/pages
	@mkdir -p $(BUILD)/docs/pages
	@git ls-files -z '*.md' docs '*.example.toml' | grep -zv '^docs/site/\|^webui/\|^.github' | \
	    xargs -0 cp --parents -t $(BUILD)/docs/pages
	@NO_MKDOCS_2_WARNING=1 $(BUILD)/docs/venv/bin/mkdocs build -f docs/site/mkdocs.yml

# -------------------------------------------------------------------- tidy up

.PHONY: format clean
format: prepare $(NPM)/.ready ## rewrite Python and JavaScript in the house style
	.venv/bin/ruff check -q --fix $(PY_ROOMS)
	.venv/bin/ruff format -q $(PY_ROOMS)
	$(BIOME) format --write $(JS_ROOMS)

clean: ## forget everything built
	$(AS_ROOT) rm -rf $(BUILD)
