"""A proxy before a server on this machine, which breaks off after so many bytes."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class Proxy:
    """Passes bytes on between clients and a server.

    Attributes:
        port: on 127.0.0.1.
        sent: bytes that the server has sent, by all connections.
        end_after: when the server has sent so many bytes, the connections break off, and no other is let in; None:
            never.
        reset: whether they break off with a reset, as when a machine is gone, or are closed.
        at_end: called once, when they break off.
    """

    port: int
    sent: int = 0
    end_after: int | None = None
    reset: bool = False
    at_end: Callable[[], None] = lambda: None
    _open: list[socket.socket] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(
        self, end_after: int | None = None, *, reset: bool = False, at_end: Callable[[], None] = lambda: None
    ) -> None:
        """Count from 0, and break off as is said."""
        self._close()
        self.sent, self.end_after, self.reset, self.at_end = 0, end_after, reset, at_end

    @property
    def ended(self) -> bool:
        """Whether it has broken off."""
        return self.end_after is not None and self.sent >= self.end_after

    def join(self, client: socket.socket, server: socket.socket) -> None:
        """Pass on what two sockets send."""
        self._open += [client, server]
        for source, target, counted in ((client, server, False), (server, client, True)):
            threading.Thread(target=self._pass_on, args=(source, target, counted), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        with suppress(OSError):
            while block := source.recv(1 << 14):
                if not counted:
                    target.sendall(block)
                    continue
                with self._lock:
                    room = len(block) if self.end_after is None else max(self.end_after - self.sent, 0)
                    self.sent += min(room, len(block))
                target.sendall(block[:room])
                if room < len(block) or self.ended:
                    self._end()
                    return
            if not self.ended:
                target.shutdown(socket.SHUT_WR)

    def _end(self) -> None:
        at_end, self.at_end = self.at_end, lambda: None
        at_end()
        self._close()

    def _close(self) -> None:
        while self._open:
            each = self._open.pop()
            with suppress(OSError):
                if self.reset:
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                # A thread that waits for bytes keeps a socket open that is closed, until it is woken.
                each.shutdown(socket.SHUT_RD if self.reset else socket.SHUT_RDWR)
            each.close()


@contextmanager
def proxy_to(port: int) -> Iterator[Proxy]:
    """A proxy to a port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        proxy = Proxy(listening.getsockname()[1])

        def accept() -> None:
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                if proxy.ended:
                    client.close()
                    continue
                proxy.join(client, socket.create_connection(("127.0.0.1", port)))

        threading.Thread(target=accept, daemon=True).start()
        yield proxy
        proxy.begin()
        listening.shutdown(socket.SHUT_RDWR)
