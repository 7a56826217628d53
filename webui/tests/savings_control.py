"""A fake of the controller's answers for tests of savings, at the process boundary."""

from __future__ import annotations

from typing import Any

from naproxy_webui.http.errors import ApiError


class Control:
    """The control API's answers that savings need."""

    def __init__(self) -> None:
        self.fit: dict[str, float] | None = None
        self.unsure = 0.0
        """By so much of its value each measured power may be larger."""
        self.name = "web"
        self.wake_s: float | None = None
        self.servers = 1
        self.office: dict[str, Any] = {}
        self.co2: dict[str, Any] | None = None
        self.fault: ApiError | None = None

    def get(self, path: str, timeout_s: float = 5.0, **query: object) -> Any:
        if self.fault:
            raise self.fault
        if path == "/v1/config":
            servers = [self._server(n) for n in range(self.servers)]
            return {"server": servers, "box": {"proxy_w": 5}, "office": {**self.office}}
        if path == "/v1/status":
            servers = [{"id": self.name, "wake_s": self.wake_s, "sleep_s": None}]
            return {"servers": servers, "box": {"co2": self.co2}}
        if path == "/v1/servers/web/commission":
            fitted = self.fit and {
                n: {"value": v, "low": v, "high": v * (1 + self.unsure)}
                for n, v in self.fit.items()
            }
            return {"fit": fitted}
        raise ApiError(404, f"nothing is at {path}")

    def _server(self, number: int) -> dict[str, Any]:
        return {
            "id": self.name if number == 0 else f"other{number}",
            "power": {"on_w": 43.3, "off_w": 1.6, "switch_j": 170.7},
            "promise": {"fraction": 0.01, "delta_s": 1.0},
            "policy": {"name": "teacher"},
        }
