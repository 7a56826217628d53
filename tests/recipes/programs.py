"""Websites made with other programs, beside the shop on the office's server."""

import shutil
import sys
from pathlib import Path

from tests.patience import wait_for
from tests.recipes.wordpress import HOST as SHOP
from tests.recipes.wordpress import Shop, as_user
from tests.simulator.office import Office
from tests.simulator.office.namespace import ROOT

WIKI, NOTES, TABLES, SITE, CODE, FORUM = (
    f"{name}.office.example" for name in ("wiki", "notes", "tables", "site", "code", "forum")
)
PASSWORD = "correct horse battery staple"
MEMBER = "grace"
"""Of the forum. She writes nothing, so only her own pages have her name."""
_PACKAGES = ROOT / "build/recipes/python"

_PHP = """\
server {{
    listen 80;
    listen [::]:80;
    server_name {host};
    root {root};
    index index.php;
    location / {{ try_files $uri $uri/ {front}; }}
    location ~ \\.php(/|$) {{
        fastcgi_split_path_info ^(.+\\.php)(/.*)$;
        include /etc/nginx/fastcgi_params;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
        fastcgi_param PATH_INFO $fastcgi_path_info;
        fastcgi_pass unix:{socket};
        {more}
    }}
}}
"""
_FILES = """\
server {{
    listen 80;
    listen [::]:80;
    server_name {host};
    root {root};
    error_page 404 /404.html;
}}
"""
_CGI = """\
server {{
    listen 80;
    listen [::]:80;
    server_name {host};
    location / {{
        include /etc/nginx/fastcgi_params;
        fastcgi_param SCRIPT_FILENAME /usr/lib/cgit/cgit.cgi;
        fastcgi_param PATH_INFO $uri;
        fastcgi_param CGIT_CONFIG {config};
        fastcgi_pass unix:{socket};
    }}
}}
"""
_PROXY = """\
server {{
    listen 80;
    listen [::]:80;
    server_name {host};
    location / {{
        proxy_pass http://unix:{socket};
        proxy_set_header Host $host;
    }}
}}
"""
# A forum in one language.
_FORUM_SETTINGS = f"""\
from forum.settings.dev import *
DEBUG = False
ALLOWED_HOSTS = ["{FORUM}"]
MIDDLEWARE.remove("django.middleware.locale.LocaleMiddleware")
"""
_FORUM_TOPIC = f"""\
from django.contrib.auth.models import User
from spirit.category.models import Category
from spirit.comment.models import Comment
from spirit.topic.models import Topic
for name in ("ada", "{MEMBER}"):
    user = User.objects.create_user(name, password="{PASSWORD}")
    user.st.is_verified = True
    user.st.save()
ada = User.objects.get(username="ada")
topic = Topic.objects.create(
    user=ada, category=Category.objects.get(title="Uncategorized"), title="Hours"
)
Comment.objects.create(user=ada, topic=topic, comment="From nine", comment_html="<p>From nine</p>")
assert (topic.pk, topic.slug) == (1, "hours"), topic
"""


class Programs:
    """MediaWiki, DokuWiki, phpMyAdmin, a site of Hugo, cgit, and the forum Spirit."""

    def __init__(self, office: Office, shop: Shop):
        """Install them; the server must be awake."""
        self._office = office
        self._socket = shop.directory / "php.sock"
        self._directory = office.server.directory / "programs"
        self._directory.mkdir()
        self._directory.chmod(0o777)
        self._mediawiki()
        self._dokuwiki()
        self._phpmyadmin()
        self.hugo("From nine")
        self._serve("site", _FILES.format(host=SITE, root=self._directory / "site/public"))
        self._cgit()
        self._spirit()

    def _serve(self, name: str, text: str) -> None:
        self._office.server.add_site(name, text)

    def _php(self, name: str, host: str, root: Path, front: str, more: str = "") -> None:
        shop = {"socket": self._socket, "more": more}
        self._serve(name, _PHP.format(host=host, root=root, front=front, **shop))

    def _mediawiki(self) -> None:
        place = self._directory / "wiki"
        place.mkdir()
        place.chmod(0o777)
        install = [
            *("php", "/usr/share/mediawiki/maintenance/install.php", f"--confpath={place}"),
            *("--dbtype=sqlite", f"--dbpath={place}", f"--server=http://{WIKI}"),
            *("--scriptpath=", f"--pass={PASSWORD}", "--skins=Vector", "Office", "Admin"),
        ]
        self._office.server.run(as_user("www-data", install), timeout_s=120)
        settings = place / "LocalSettings.php"
        # As MediaWiki's manual has it for a site behind a cache.
        more = '$wgUseCdn = true;\n$wgArticlePath = "/wiki/$1";\n'
        settings.write_text(settings.read_text() + more)
        config = f"fastcgi_param MW_CONFIG_FILE {settings};"
        self._php("wiki", WIKI, Path("/usr/share/mediawiki"), "/index.php?$args", config)

    def _dokuwiki(self) -> None:
        root = self._directory / "notes"
        shutil.copytree("/usr/share/dokuwiki", root, symlinks=False, ignore_dangling_symlinks=True)
        for part in ("data", "conf", "lib"):
            shutil.rmtree(root / part, ignore_errors=True)
        shutil.copytree("/usr/share/dokuwiki/lib", root / "lib", symlinks=False)
        shutil.copytree("/var/lib/dokuwiki/data", root / "data")
        shutil.copytree("/etc/dokuwiki", root / "conf", ignore_dangling_symlinks=True)
        for path in (root / "inc/preload.php",):
            path.unlink(missing_ok=True)
        pages = root / "data/pages"
        pages.mkdir(parents=True, exist_ok=True)
        (pages / "start.txt").write_text("====== Notes ======\nFrom nine.\n")
        (root / "conf/local.php").write_text(
            "<?php\n$conf['useacl'] = 0;\n$conf['userewrite'] = 2;\n"
        )
        for path in (root, *root.rglob("*")):
            if not path.is_symlink():
                shutil.chown(path, "www-data", "www-data")
        self._php("notes", NOTES, root, "/doku.php?$args")

    def _phpmyadmin(self) -> None:
        self._php("tables", TABLES, Path("/usr/share/phpmyadmin"), "/index.php?$args")

    def hugo(self, text: str) -> None:
        """Make the site anew with another text."""
        place = self._directory / "site"
        if not place.exists():
            place.mkdir()
            (place / "config.toml").write_text(f'baseURL = "http://{SITE}/"\ntitle = "Office"\n')
            layouts = place / "layouts/_default"
            layouts.mkdir(parents=True)
            whole = "<!doctype html><title>{{ .Title }}</title><h1>{{ .Title }}</h1>{{ .Content }}"
            for name in ("single", "list"):
                (layouts / f"{name}.html").write_text(whole)
            (place / "content").mkdir()
        for name in ("_index", "hours", "contact"):
            page = f"---\ntitle: {name}\n---\n{text}\n"
            (place / f"content/{name}.md").write_text(page)
        self._office.server.run(["hugo", "--quiet", "--source", place], timeout_s=60)

    def _cgit(self) -> None:
        place = self._directory / "code"
        repository = place / "office.git"
        place.mkdir()
        identity = {
            f"GIT_{who}_{what}": "office@example.org"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        env = [f"{key}={value}" for key, value in identity.items()]
        run = self._office.server.run
        work = place / "work"
        run(["git", "init", "-q", work])
        (work / "README").write_text("From nine")
        run(["git", "-C", work, "add", "README"])
        run(["env", *env, "git", "-C", work, "commit", "-q", "-m", "Begin"])
        run(["git", "clone", "-q", "--bare", work, repository])
        config = place / "cgitrc"
        config.write_text(
            f"virtual-root=/\ncache-size=0\nrepo.url=office\nrepo.path={repository}\n"
        )
        for path in (place, *place.rglob("*")):
            shutil.chown(path, "www-data", "www-data")
        socket = place / "cgi.sock"
        argv = as_user("www-data", ["fcgiwrap", "-c", "2", "-s", f"unix:{socket}"])
        self._office.server.popen_inside(argv, log="fcgiwrap")
        place.chmod(0o777)
        self._serve("code", _CGI.format(host=CODE, config=config, socket=socket))

    def _spirit(self) -> None:
        place = self._directory / "forum"
        place.mkdir()
        template = _PACKAGES / "spirit/extra/project_template"
        python = ("env", "-C", place, f"PYTHONPATH={_PACKAGES}:{place}", sys.executable, "-m")

        def manage(*argv: str | Path) -> None:
            self._office.server.run([*python, "django", *argv], timeout_s=300)

        manage("startproject", "forum", place, f"--template={template}")
        (place / "office.py").write_text(_FORUM_SETTINGS)
        manage("spiritinstall", "--settings=office")
        manage("shell", "--settings=office", "-c", _FORUM_TOPIC)
        socket = place / "forum.sock"
        serve = (f"--unix-socket={socket}", "--unix-socket-perms=666", "forum.wsgi:application")
        argv: list[str | Path] = [*python, "waitress", *serve]
        argv.insert(3, "DJANGO_SETTINGS_MODULE=office")
        self._office.server.popen_inside(argv, log="forum")
        wait_for(socket.exists, "the forum")
        self._serve("forum", _PROXY.format(host=FORUM, socket=socket))


HOSTS = (SHOP, WIKI, NOTES, TABLES, SITE, CODE, FORUM)
