"""WordPress with MariaDB and PHP-FPM behind nginx, all of Debian, on the office's server."""

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.box import ADDRESS as BOX

HOST = "shop.office.example"
USER, PASSWORD = "admin", "correct horse battery staple"
STRIPE_SECRET, GITHUB_SECRET = "whsec_of_the_office", "secret of the repository"

_SITE = """\
server {{
    listen 80;
    listen [::]:80;
    server_name {host};
    root {root};
    index index.php;
    set_real_ip_from {box};
    real_ip_header X-Forwarded-For;
    location / {{ try_files $uri $uri/ /index.php?$args; }}
    location ~ \\.php$ {{
        include /etc/nginx/fastcgi_params;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
        fastcgi_pass unix:{directory}/php.sock;
        fastcgi_read_timeout 120;
    }}
}}
"""

_FPM = """\
[global]
error_log = {directory}/php-fpm.log
daemonize = no
[shop]
listen = {directory}/php.sock
listen.mode = 0666
pm = static
pm.max_children = 6
clear_env = yes
php_admin_value[sendmail_path] = /bin/true
"""

_CONFIG = """\
<?php
define('DB_NAME', 'wordpress');
define('DB_USER', 'root');
define('DB_PASSWORD', '');
define('DB_HOST', 'localhost:{directory}/mariadb.sock');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
define('SHOP_STRIPE_SECRET', '{stripe}');
define('SHOP_GITHUB_SECRET', '{github}');
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('WP_ACCESSIBLE_HOSTS', '{host}');
define('AUTOMATIC_UPDATER_DISABLED', true);
{salts}
$table_prefix = 'wp_';
if (!defined('ABSPATH'))
	define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
"""

_SALTS = ("AUTH", "SECURE_AUTH", "LOGGED_IN", "NONCE")


def as_user(user: str, argv: Sequence[str | Path]) -> list[str | Path]:
    """Return the command that runs `argv` as that user, without rights."""
    return [
        *("setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"),
        *("--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--", *argv),
    ]


def naming(directory: Path, argv: Sequence[str | Path]) -> list[str | Path]:
    """Return the command for which the office's names lead to the box, as public DNS has them."""
    hosts = directory / "hosts"
    names = (HOST, "cloud.office.example", "calendar.office.example")
    hosts.write_text(f"127.0.0.1 localhost\n{BOX} {' '.join(names)}\n")
    start = f'mount --bind "{hosts}" /etc/hosts && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", start, "sh", *argv]


class Shop:
    """A WordPress that is installed, with a shop's plug-in."""

    def __init__(self, office: Office):
        """Install and start it; the server must be awake."""
        self.office = office
        self.directory = office.server.directory / "shop"
        self.directory.mkdir()
        self.directory.chmod(0o777)
        self._start_database()
        self._start_php()
        office.server.add_site(
            "shop",
            _SITE.format(host=HOST, root=self._root, box=BOX, directory=self.directory),
        )
        self._install()

    def query(self, statement: str) -> list[str]:
        """Ask the database; one string a row. The server must be awake, as its program is asked."""
        socket = f"--socket={self.directory}/mariadb.sock"
        argv = ["mariadb", "--no-defaults", socket, "-u", "root", "-N", "-B", "wordpress"]
        return self.office.server.run([*argv, "-e", statement]).stdout.splitlines()

    def received(self, kind: str) -> list[str]:
        """Return what came of a kind: `order`, `stripe` or `github`; each as often as it came."""
        return self.query(f"select name from shop_received where kind = '{kind}' order by id")

    @property
    def _root(self) -> Path:
        return self.directory / "www"

    def _start_database(self) -> None:
        data = self.directory / "mariadb"
        data.mkdir()
        shutil.chown(data, "mysql", "mysql")
        server, common = self.office.server, ("--no-defaults", f"--datadir={data}")
        made = ("mariadb-install-db", *common, "--auth-root-authentication-method=normal")
        server.run(as_user("mysql", [*made, "--skip-test-db"]), timeout_s=120)
        socket = self.directory / "mariadb.sock"
        small = ("--skip-networking", "--innodb-buffer-pool-size=32M", "--performance-schema=OFF")
        pid = f"--pid-file={data}/pid"
        argv: list[str | Path] = ["mariadbd", *common, f"--socket={socket}", pid, *small]
        server.popen_inside([str(word) for word in as_user("mysql", argv)], log="mariadb")
        ask = ["mariadb", "--no-defaults", f"--socket={socket}", "-u", "root", "-e"]
        wait_for(
            lambda: server.run([*ask, "select 1"], check=False).returncode == 0, "the database"
        )
        server.run([*ask, "create database wordpress character set utf8mb4"])
        self.query(
            "create table shop_received (id int auto_increment primary key,"
            " kind varchar(20) not null, name varchar(190) not null)"
        )

    def _start_php(self) -> None:
        shutil.copytree("/usr/share/wordpress", self._root)
        values = {"directory": self.directory, "host": HOST}
        secrets = {"stripe": STRIPE_SECRET, "github": GITHUB_SECRET}
        kinds = [f"{name}_{what}" for name in _SALTS for what in ("KEY", "SALT")]
        salts = "\n".join(f"define('{kind}', '{kind} of an office for tests');" for kind in kinds)
        config = _CONFIG.format(**values, **secrets, salts=salts)
        (self._root / "wp-config.php").write_text(config)
        plugins = self._root / "wp-content/mu-plugins"
        plugins.mkdir()
        shutil.copy(Path(__file__).with_name("shop.php"), plugins)
        for place in (self._root / "wp-content", plugins):
            shutil.chown(place, "www-data", "www-data")
        config_file = self.directory / "php-fpm.conf"
        config_file.write_text(_FPM.format(**values))
        [program] = Path("/usr/sbin").glob("php-fpm[0-9]*")
        argv = as_user("www-data", [program, "--fpm-config", config_file])
        self.office.server.popen_inside(naming(self.directory, argv), log="php-fpm")
        wait_for((self.directory / "php.sock").exists, "PHP")

    def _install(self) -> None:
        form = {
            "weblog_title": "The office's shop",
            "user_name": USER,
            "admin_password": PASSWORD,
            "admin_password2": PASSWORD,
            "pw_weak": "1",
            "admin_email": "admin@office.example",
            "blog_public": "1",
        }
        fields = [word for item in form.items() for word in ("--data-urlencode", "=".join(item))]
        at = ("--resolve", f"{HOST}:80:127.0.0.1", f"http://{HOST}/wp-admin/install.php?step=2")
        said = self.office.server.run(["curl", "-sS", *fields, *at], timeout_s=120).stdout
        assert "Success!" in said, said


class Browser:
    """A person with cookies, who asks the box as curl does it with a jar."""

    def __init__(self, office: Office, name: str, source: str, host: str = HOST):
        self._office = office
        self._host = host
        self._jar = office.directory / f"{name}.cookies"
        self._source = source

    def get(self, path: str, *more: str) -> tuple[int, str]:
        """Ask for a page, following redirects; returns status and text.

        Reloads where the box shows the waiting page, as that page itself does.
        """
        agent = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
        argv: list[str | Path] = [
            *("curl", "-sSL", "-b", self._jar, "-c", self._jar, "-A", agent),
            *("-H", "Accept: text/html", "-H", "Sec-Fetch-Mode: navigate"),
            *("--interface", self._source, "--resolve", f"{self._host}:80:{BOX}"),
            *("--max-time", "60", "-w", "\n%{http_code} %header{x-naproxy}"),
            *(*more, f"http://{self._host}{path}"),
        ]

        while True:
            text, _, last = self._office.client.run(argv, timeout_s=70).stdout.rpartition("\n")
            status, _, how = last.partition(" ")
            if how != "waiting_page":
                return int(status), text
            time.sleep(0.25)

    def post(self, path: str, **fields: str) -> tuple[int, str]:
        """Send a form; what comes after it is asked for with GET."""
        data = [word for item in fields.items() for word in ("--data-urlencode", "=".join(item))]
        return self.get(path, *data)

    def login(self) -> str:
        """Log in to wp-admin; returns the text of its first page."""
        self.get("/wp-login.php")
        _, text = self.post("/wp-login.php", log=USER, pwd=PASSWORD, redirect_to="/wp-admin/")
        return text

    def publish(self, **post: str) -> int:
        """Publish a post as the editor does, by the REST API with a nonce; returns its number."""
        _, nonce = self.get("/wp-admin/admin-ajax.php?action=rest-nonce")
        header = ("-H", f"X-WP-Nonce: {nonce}", "-H", "Content-Type: application/json")
        body = json.dumps(post)
        status, text = self.get("/?rest_route=/wp/v2/posts", *header, "-d", body)
        assert status == 201, text
        number = json.loads(text)["id"]
        assert isinstance(number, int)
        return number
