"""Clusters."""

import json
import os
import shlex
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from loligo import _native
from loligo.rados import _names
from loligo.rados.constants import MONITOR_LEVELS
from loligo.rados.errors import Error, LogicError, ObjectNotFound, RadosStateError, make_error
from loligo.rados.ioctx import Ioctx

Reply = Tuple[int, bytes, str]


class Version:
    """The version of librados' interface."""

    def __init__(self, major: int, minor: int, extra: int) -> None:
        self.major = major
        self.minor = minor
        self.extra = extra

    def __str__(self) -> str:
        return "{0}.{1}.{2}".format(self.major, self.minor, self.extra)


class Rados:
    """A client of a cluster."""

    #: For ``conffile``: no file is read.
    NO_CONF_FILE = -1
    #: For ``conffile``: the usual files are read.
    DEFAULT_CONF_FILES = -2

    def __init__(
        self,
        rados_id: Optional[str] = None,
        name: Optional[str] = None,
        clustername: Optional[str] = None,
        conf_defaults: Optional[Dict[str, str]] = None,
        conffile: Union[str, int, None] = NO_CONF_FILE,
        conf: Optional[Dict[str, str]] = None,
        flags: int = 0,
        context: Optional[object] = None,
    ) -> None:
        if rados_id is not None and name is not None:
            raise Error("Rados(): can't supply both rados_id and name")
        if context is not None:
            raise LogicError("Rados(): contexts of librados mean nothing here")
        if name is None:
            name = "client.{0}".format("admin" if rados_id is None else rados_id)
        self.rados_id = name.partition(".")[2]
        self.state = "uninitialized"
        self.conffile = conffile
        self.conf_defaults = conf_defaults
        self.parsed_args: List[str] = []
        self.monitor_callback: Optional[Callable[..., Any]] = None
        self.monitor_callback2: Optional[Callable[..., Any]] = None
        self._client = _native.Client(name, clustername or None)
        self.state = "configuring"
        for option, value in (conf_defaults or {}).items():
            self.conf_set(option, value)
        self._read_files(conffile)
        for option, value in (conf or {}).items():
            self.conf_set(option, value)

    def _read_files(self, conffile: Union[str, int, None]) -> None:
        if conffile in (None, self.NO_CONF_FILE):
            return
        if conffile in ("", self.DEFAULT_CONF_FILES):
            try:
                self.conf_read_file(None)
            except ObjectNotFound:
                # The usual files need not be there.
                pass
            return
        self.conf_read_file(conffile)  # type: ignore[arg-type]

    def require_state(self, *args: str) -> None:
        """Fails unless the client is in one of these states."""
        if self.state not in args:
            raise RadosStateError("You cannot perform that operation on a Rados object in state {0}.".format(
                self.state
            ))

    def _connected(self) -> Any:
        self.require_state("connected")
        return self._client

    def __enter__(self) -> "Rados":
        self.connect()
        return self

    def __exit__(self, type_: Any, value: Any, traceback: Any) -> None:
        self.shutdown()

    def connect(self, timeout: int = 0) -> None:
        """Connects. How long it tries is an option of the configuration, ``client_mount_timeout``."""
        self.require_state("configuring")
        self._client.connect()
        self.state = "connected"

    def shutdown(self) -> None:
        """Ends the client. Operations under way fail."""
        if self.state == "connected":
            self._client.shutdown()
        self.state = "shutdown"

    def version(self) -> Version:
        """Returns the version of librados' interface."""
        return Version(3, 0, 0)

    # Configuration.

    def conf_read_file(self, path: Optional[str] = None) -> None:
        """Reads a configuration file; without a path ``CEPH_CONF``, or the first of the usual ones."""
        self.require_state("configuring", "connected")
        self._client.read_file(None if not path else os.fspath(path))

    def conf_parse_argv(self, args: Sequence[str]) -> List[str]:
        """Takes options from a command line; returns the words that are none."""
        self.require_state("configuring", "connected")
        if not args:
            return []
        return self._client.parse_words([_names.text(arg, "args") for arg in args])

    def conf_parse_env(self, var: Optional[str] = "CEPH_ARGS") -> None:
        """Takes options from a variable of the environment."""
        self.require_state("configuring", "connected")
        words = shlex.split(os.environ.get(var or "CEPH_ARGS", ""))
        if words:
            self._client.parse_words(words)

    def conf_get(self, option: str) -> Optional[str]:
        """Returns an option's value; ``None`` if there is no such option."""
        self.require_state("configuring", "connected")
        return self._client.conf_get(option)

    def conf_set(self, option: str, val: str) -> None:
        """Sets an option."""
        self.require_state("configuring", "connected")
        self._client.conf_set(option, val)

    # The cluster.

    def get_instance_id(self) -> int:
        """Returns the number that the monitors gave this client."""
        return self._connected().instance_id()

    def get_fsid(self) -> str:
        """Returns the cluster's id."""
        return self._connected().fsid()

    def get_addrs(self) -> str:
        """Returns this client's address, as the blocklist has it."""
        return self._connected().address()

    def get_cluster_stats(self) -> Dict[str, int]:
        """Returns the cluster's space, in KiB, and the number of objects."""
        names = ("kb", "kb_used", "kb_avail", "num_objects")
        return dict(zip(names, self._connected().statfs()))

    def wait_for_latest_osdmap(self) -> int:
        """Waits for the monitors' newest map; returns 0."""
        self._connected().wait_for_latest_osdmap()
        return 0

    def blocklist_add(self, client_address: str, expire_seconds: int = 0) -> None:
        """Puts a client on the blocklist; 0 is the monitors' default."""
        self._connected().blocklist_add(client_address, expire_seconds)

    # Pools.

    def list_pools(self) -> List[str]:
        """Lists the pools."""
        return [name for _, name in self._connected().pools()]

    def pool_exists(self, pool_name: str) -> bool:
        """Whether there is a pool of this name."""
        try:
            self.pool_lookup(pool_name)
        except ObjectNotFound:
            return False
        return True

    def pool_lookup(self, pool_name: str) -> int:
        """Returns the id of a pool."""
        return self._connected().pool_id(pool_name)

    def pool_reverse_lookup(self, pool_id: int) -> str:
        """Returns the name of a pool."""
        name = self._connected().pool_name(pool_id)
        if name is None:
            raise ObjectNotFound("there is no pool {0}".format(pool_id), 2)
        return name

    def create_pool(
        self, pool_name: str, crush_rule: Optional[int] = None, auid: Optional[int] = None
    ) -> None:
        """Creates a pool, with a CRUSH rule by its number or the default one."""
        client = self._connected()
        if auid is not None:
            raise LogicError("pools have no owner any more: auid must be None")
        if crush_rule is None:
            client.create_pool(pool_name)
            return
        if self.pool_exists(pool_name):
            raise make_error(17, "cannot create pool '{0}': it exists".format(pool_name))
        rules = self._answer("osd crush rule dump")
        names = [rule["rule_name"] for rule in rules if rule["rule_id"] == crush_rule]
        if not names:
            raise ObjectNotFound("there is no CRUSH rule {0}".format(crush_rule), 2)
        self._answer("osd pool create", pool=pool_name, rule=names[0], pool_type="replicated")
        client.wait_for_latest_osdmap()

    def delete_pool(self, pool_name: str) -> None:
        """Removes a pool and all its objects."""
        self._connected().delete_pool(pool_name)

    def get_pool_base_tier(self, pool_id: int) -> int:
        """Returns the pool that a cache pool is before; the pool itself without one."""
        return self._connected().base_tier(pool_id)

    def get_inconsistent_pgs(self, pool_id: int) -> List[str]:
        """Lists the placement groups of a pool that scrubs found inconsistent."""
        command = {"prefix": "pg ls", "pool": pool_id, "states": ["inconsistent"], "format": "json"}
        result, output, status = self.mgr_command(json.dumps(command), b"")
        if result < 0:
            raise make_error(-result, status)
        found = json.loads(output or b"[]")
        groups = found if isinstance(found, list) else found.get("pg_stats", [])
        return [group["pgid"] for group in groups]

    def open_ioctx(self, ioctx_name: str) -> Ioctx:
        """Opens a pool."""
        name = _names.text(ioctx_name, "ioctx_name")
        return Ioctx(self, name, self._connected().open(name))

    def open_ioctx2(self, pool_id: int) -> Ioctx:
        """Opens a pool by its id."""
        name = self.pool_reverse_lookup(_names.number(pool_id, "pool_id"))
        return Ioctx(self, name, self._connected().open_by_id(pool_id))

    # Commands.

    def _command(self, target: str, cmd: Union[str, Sequence[str]], inbuf: bytes) -> Reply:
        client = self._connected()
        words = cmd if isinstance(cmd, str) else " ".join(cmd)
        try:
            return client.command(target, words, _names.data(inbuf, "inbuf"))
        except Error as error:
            if error.errno is None:
                raise
            return -error.errno, b"", str(error)

    def _answer(self, prefix: str, **arguments: Any) -> Any:
        """Sends the monitors a command and returns what it tells."""
        command = json.dumps(dict(arguments, prefix=prefix, format="json"))
        result, output, status = self.mon_command(command, b"")
        if result < 0:
            raise make_error(-result, "{0}: {1}".format(prefix, status))
        return json.loads(output) if output.strip() else None

    def mon_command(
        self, cmd: str, inbuf: bytes, timeout: int = 0, target: Union[str, int, None] = None
    ) -> Reply:
        """Sends the monitors a command in JSON, or one of them; returns result, output and status text.
        How long it waits is an option of the configuration, ``rados_mon_op_timeout``."""
        if target is None:
            return self._command("mon", cmd, inbuf)
        self._expect_monitor(str(target))
        return self._command("mon.{0}".format(target), cmd, inbuf)

    def osd_command(self, osdid: int, cmd: str, inbuf: bytes, timeout: int = 0) -> Reply:
        """Sends an OSD a command in JSON; returns result, output and status text."""
        return self._command("osd.{0}".format(_names.number(osdid, "osdid")), cmd, inbuf)

    def mgr_command(self, cmd: str, inbuf: bytes, timeout: int = 0, target: Optional[str] = None) -> Reply:
        """Sends the active manager a command in JSON; returns result, output and status text."""
        return self._command("mgr.{0}".format(target) if target else "mgr", cmd, inbuf)

    def pg_command(self, pgid: str, cmd: str, inbuf: bytes, timeout: int = 0) -> Reply:
        """Sends the primary of a placement group a command in JSON; returns result, output and status."""
        self.require_state("connected")
        return self._command("pg.{0}".format(pgid), cmd, inbuf)

    def _expect_monitor(self, name: str) -> None:
        monitors = self._answer("mon dump")["mons"]
        if not any(name in (monitor["name"], str(monitor["rank"])) for monitor in monitors):
            raise ObjectNotFound("there is no monitor '{0}'".format(name), 2)

    def ping_monitor(self, mon_id: str) -> str:
        """Asks a monitor whether it lives; returns its state as JSON."""
        self.require_state("configuring", "connected")
        self._expect_monitor(_names.text(mon_id, "mon_id"))
        command = json.dumps({"prefix": "status", "format": "json"})
        result, output, status = self.mon_command(command, b"")
        if result < 0:
            raise make_error(-result, status)
        return output.decode("utf-8")

    # The log, services.

    def monitor_log(
        self, level: str, callback: Optional[Callable[..., Any]] = None, arg: Optional[object] = None
    ) -> None:
        """Has ``callback(arg, line, who, sec, nsec, seq, level, msg)`` told of the cluster's log; ``None``
        ends it."""

        def tell(line, channel, who, name, sec, nsec, seq, level, msg):
            callback(arg, line, who, sec, nsec, seq, level, msg)

        self._follow_log(level, callback, tell)
        self.monitor_callback, self.monitor_callback2 = callback, None

    def monitor_log2(
        self, level: str, callback: Optional[Callable[..., Any]] = None, arg: Optional[object] = None
    ) -> None:
        """Has ``callback(arg, line, channel, name, who, sec, nsec, seq, level, msg)`` told of the cluster's
        log; ``None`` ends it."""

        def tell(line, channel, who, name, sec, nsec, seq, level, msg):
            callback(arg, line, channel, name, who, sec, nsec, seq, level, msg)

        self._follow_log(level, callback, tell)
        self.monitor_callback, self.monitor_callback2 = None, callback

    def _follow_log(
        self, level: str, callback: Optional[Callable[..., Any]], tell: Callable[..., Any]
    ) -> None:
        client = self._connected()
        if level not in MONITOR_LEVELS:
            raise LogicError("invalid monitor level {0}".format(level))
        if callback is not None and not callable(callback):
            raise LogicError("callback must be a callable function")
        client.log(level, None if callback is None else tell)

    def service_daemon_register(self, service: str, daemon: str, metadata: Dict[str, str]) -> None:
        """Registers this client as a daemon of a service."""
        self._connected().register_service(service, daemon, metadata)

    def service_daemon_update(self, status: Dict[str, str]) -> None:
        """Replaces the status of this client's daemon."""
        self._connected().update_service(status)


class MonitorLog:
    """Tells of the cluster's log: see ``Rados.monitor_log``. It is kept by the client."""

    def __init__(
        self, cluster: Rados, level: str, callback: Optional[Callable[..., Any]], arg: Optional[object]
    ) -> None:
        self.level = level
        self.callback = callback
        self.arg = arg
        cluster.monitor_log(level, callback, arg)
