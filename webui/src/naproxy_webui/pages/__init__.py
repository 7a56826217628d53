"""One file a page: `PAGE`, a naproxy_webui.page.Page, and `blueprint`."""
