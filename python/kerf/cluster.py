# SPDX-License-Identifier: Apache-2.0
"""Clusters: the machines for which plans are made."""
from __future__ import annotations

import json
import logging
import os
from typing import Any, Optional, Union

from . import _core
from .checks import write_text

_CLUSTERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clusters")


class Cluster:
    """A cluster: devices and the links between them (docs/clusters.md). Clusters are immutable and can be pickled."""

    __slots__ = ("_text",)

    def __init__(self, description: Union[str, dict[str, Any]]) -> None:
        """Makes a cluster from the text or the dictionary of a cluster file."""
        text = description if isinstance(description, str) else json.dumps(description)
        self._text = _core.parse_cluster(text, "cluster")

    @staticmethod
    def load(path: Union[str, os.PathLike[str]]) -> Cluster:
        """Returns the cluster of a file, or one of the clusters that come with Kerf by its name, such as "dgx-a100"."""
        name = os.fspath(path)
        own = os.path.join(_CLUSTERS, f"{name}.json")
        is_name = not os.path.exists(name) and os.path.basename(name) == name and os.path.exists(own)
        return Cluster(_core.read_cluster(own if is_name else name))

    @staticmethod
    def names() -> list[str]:
        """Returns the names of the clusters that come with Kerf."""
        return sorted(name[:-5] for name in os.listdir(_CLUSTERS) if name.endswith(".json"))

    @staticmethod
    def here(ranks: Optional[int] = None) -> Cluster:
        """Returns `ranks` CPU ranks of this machine: by default one for each core."""
        return Cluster(_core.this_machine(os.cpu_count() or 1 if ranks is None else ranks))

    @staticmethod
    def profile(ranks: Optional[int] = None, *, quick: bool = False, device: str = "cpu") -> Cluster:
        """Measures this machine, as `kerf profile` does: 15 s with `quick`, else a minute."""
        logger = logging.getLogger("kerf")
        return Cluster(_core.profile(ranks or 0, quick, device, lambda what: logger.info("measuring: %s", what)))

    @property
    def name(self) -> str:
        """The name of the cluster."""
        return self.to_dict()["name"]

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return _core.cluster_ranks(self._text)

    @property
    def text(self) -> str:
        """The text of the cluster file."""
        return self._text

    def to_dict(self) -> dict[str, Any]:
        """Returns the content of the cluster file."""
        return json.loads(self._text)

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the cluster file."""
        write_text(path, self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cluster) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> Any:
        return (Cluster, (self._text,))

    def __repr__(self) -> str:
        return f"Cluster({self.name!r}, ranks={self.ranks})"


ClusterLike = Union[Cluster, str, "os.PathLike[str]", None]


def cluster_text(cluster: ClusterLike) -> Optional[str]:
    """Returns the text of a cluster, of a path or of a name; nothing for nothing."""
    if cluster is None:
        return None
    if isinstance(cluster, Cluster):
        return cluster.text
    if isinstance(cluster, (str, os.PathLike)):
        return Cluster.load(cluster).text
    raise TypeError(f"a cluster is a kerf.Cluster, a path or a name, not a {type(cluster).__name__}")
