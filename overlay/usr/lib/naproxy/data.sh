# shellcheck shell=sh
# What a start lays out on /data. To be sourced, after common.sh.

# Who may read what. The controller's history is for the web interface, too.
make_folders() {
	install -d -m 755 /data/etc /data/log /data/naproxy/system /data/naproxy-webui-tls
	install -d -m 750 -g naproxy /data/naproxy
	install -d -m 700 -o naproxy-webui -g naproxy /data/naproxy-webui
	# Keys of certificates: nobody's but root's.
	install -d -m 700 /data/naproxy-edge
}

# Varnish need not wait for the controller to know the office's servers. All of them count as
# awake until it runs.
give_page() {
	mkdir -p /run/naproxy
	[ ! -s /data/naproxy/page ] ||
		install -m 660 -g varnish /data/naproxy/page /run/naproxy/page
}
