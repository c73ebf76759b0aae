"""The SDMX structures of an export: code lists, concepts, data structure definitions and dataflows, by pysdmx."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from tallytree.accounting.periods import Period
from tallytree.release.statement import description_of
from tallytree.support.whole_files import flush
from tallytree.views.export.dictionary import about_text, title_of
from tallytree.views.export.naming import identifiers
from tallytree.views.export.sdmx_codes import SideCodes, xml_text
from tallytree.views.export.tables import ExportedTable

VERSION = "1.0"
_CODE_LIST = "urn:sdmx:org.sdmx.infomodel.codelist.Codelist"
_TAKEN = ("STRUCTURE", "STRUCTURE_ID", "ACTION", "OBS_VALUE", "OBS_STATUS", "TIME_PERIOD", "SIZE")


@dataclass(frozen=True)
class Dimension:
    """A dimension: coded where it is a hierarchy, one time for all rows, or else a column of integers.

    Attributes:
        id: its id.
        column: of the table; empty where it is coded.
        codes: of the hierarchy; None for others.
        description: what it means.
        time: the time that all rows are about; empty for others.
    """

    id: str
    column: str
    codes: SideCodes | None
    description: str
    time: str = ""


@dataclass(frozen=True)
class ObservationAttribute:
    """What is said of an observation.

    Attributes:
        id: its id.
        column: of the table; None for the status, which is computed.
        kind: `"string"`, `"integer"` or `"number"`.
        description: what it means.
    """

    id: str
    column: str | None
    kind: str
    description: str


@dataclass
class Flow:
    """A dataflow, with what its data structure definition needs.

    Attributes:
        id: of the dataflow.
        agency: the id of its agency.
        title: its name.
        text: its description.
        dimensions: in order.
        value: the column of the published number.
        value_description: what the number means.
        value_role: whether it may be left out; see `Column`.
        fractions: whether the number may have fractions.
        normal: the status of a number that can be used: `A`, or `P` where the publisher calls the numbers provisional.
        attributes: in order, the status first.
    """

    id: str
    agency: str
    title: str
    text: str
    dimensions: tuple[Dimension, ...]
    value: str
    value_description: str
    value_role: str
    fractions: bool
    normal: str = "A"
    attributes: list[ObservationAttribute] = field(default_factory=list)

    @classmethod
    def of(cls, table: ExportedTable, codes: Sequence[SideCodes], agency: str) -> Flow:
        """The flow that a table is of, without the attributes.

        Args:
            table: one of its tables.
            codes: of the hierarchies.
            agency: the id of the agency.
        """
        ids = identifiers((each.side.name for each in codes), taken=_TAKEN)
        dimensions = [
            Dimension(id_, "", each, f"A node of the hierarchy {each.side.name!r}.")
            for id_, each in zip(ids, codes, strict=True)
        ]
        keys = [column for column in table.columns if column.name in ("size", "records_from")]
        dimensions += [Dimension(each.name.upper(), each.name, None, each.description) for each in keys]
        period = table.statement["release"].get("period")
        if period is not None:
            said = "The days that the records are about."
            dimensions.append(Dimension("TIME_PERIOD", "", None, said, time_period(Period.parse(period))))
        value = next(each for each in table.columns if each.name in ("count", "groups", "people"))
        statistic = str(table.statement["statistic"])
        people = value.name == "people"
        return cls(
            id="CONTRIBUTIONS" if people else statistic.upper(),
            agency=agency,
            title="People by their number of records" if people else title_of(table.statement),
            text=about_text(table.statement),
            dimensions=tuple(dimensions),
            value=value.name,
            value_description=value.description,
            value_role=value.role,
            fractions=value.kind == "number",
            normal="P" if description_of(table.statement).get("status") == "provisional" else "A",
            attributes=[ObservationAttribute("OBS_STATUS", None, "string", "Whether the number is reliable.")],
        )

    def add(self, table: ExportedTable) -> None:
        """Add the attributes that a table of the flow has."""
        known = {self.value, *(each.column for each in self.dimensions), *(each.column for each in self.attributes)}
        for column in table.columns:
            if column.role != "path" and column.name not in known:
                self.attributes.append(
                    ObservationAttribute(column.name.upper(), column.name, column.kind, column.description)
                )
            self.fractions |= column.name == self.value and column.kind == "number"


def time_period(period: Period) -> str:
    """Days as SDMX writes them: `2026`, `2026-03`, `2026-W10`, `2026-03-04`, or a first day and their number."""
    first, last = period.first, period.last
    days = (last - first).days + 1
    year, week, _ = first.isocalendar()
    names = (f"{first:%Y}", f"{first:%Y-%m}", f"{year:04}-W{week:02}", f"{first:%Y-%m-%d}")
    return next((name for name in names if Period.parse(name) == period), f"{first:%Y-%m-%d}/P{days}D")


def write_structures(path: Path, flows: Sequence[Flow]) -> None:
    """Write the structures as an SDMX-JSON 2.0 message.

    pysdmx makes the message, all but the codes of hierarchies. Its codes have no parents, and a million of them would
    take a gigabyte; so the codes are written here, slice by slice.

    Args:
        path: of the file to make.
        flows: the dataflows.
    """
    from pysdmx.io import write_sdmx
    from pysdmx.io.format import Format

    lists = {f"CL_{each.id}": each.codes for flow in flows for each in flow.dimensions if each.codes is not None}
    agency = flows[0].agency
    objects = [_status_codes(agency), *(_empty_list(name, codes, agency) for name, codes in lists.items())]
    for flow in flows:
        objects += _structures(flow)
    message = json.loads(write_sdmx(objects, Format.STRUCTURE_SDMX_JSON_2_0_0) or "")
    message["meta"]["sender"] = {"id": agency.partition(".")[0]}  # an organisation, of which it may be a part
    for definition in message["data"]["dataStructures"]:
        definition["dataStructureComponents"].pop("groups", None)  # empty, which the schema of SDMX-JSON does not allow
    marks = {}
    for made in message["data"]["codelists"]:
        if made["id"] in lists:
            made["codes"] = mark = secrets.token_hex(16)
            marks[json.dumps(mark)] = lists[made["id"]]
    text = json.dumps(message, ensure_ascii=False, indent=1)
    with path.open("w", encoding="utf-8") as file:
        for mark in sorted(marks, key=text.index):
            before, _, text = text.partition(mark)
            file.write(before)
            _write_codes(file, marks[mark])
        file.write(text + "\n")
    flush(path)


def _write_codes(file: TextIO, codes: SideCodes) -> None:
    """Write the codes of a hierarchy as a JSON array, from the root down."""
    separator = "["
    for depth in range(len(codes.by_level)):
        for each in codes.in_slices(depth):
            shown = json.dumps(each, ensure_ascii=False, separators=(",", ":"))
            file.write(f"{separator}{shown[1:-1]}")
            separator = ",\n"
        for rest in codes.rests(depth):
            file.write(f"{separator}{json.dumps(rest, ensure_ascii=False, separators=(',', ':'))}")
    file.write("]")


def _status_codes(agency: str) -> Any:
    from pysdmx.model import Code, Codelist

    items = [
        Code("A", name="Normal value"),
        Code("P", name="Provisional value"),
        Code("U", name="Low reliability", description="The error of the number is large beside the number."),
        Code("Q", name="Missing value; suppressed", description="The number is left out, since its error is large."),
    ]
    return Codelist("CL_OBS_STATUS", name="Observation status", agency=agency, items=items, version=VERSION)


def _empty_list(name: str, codes: SideCodes, agency: str) -> Any:
    from pysdmx.model import Codelist

    return Codelist(name, name=f"The hierarchy {xml_text(codes.side.name)}", agency=agency, version=VERSION)


def _structures(flow: Flow) -> list[Any]:
    """The concepts, the data structure definition and the dataflow of a flow, as pysdmx has them."""
    from pysdmx.model import Components, Concept, ConceptScheme, Dataflow, DataStructureDefinition, DataType, Role

    whole = {"agency": flow.agency, "version": VERSION, "name": flow.title}
    kinds = {"integer": DataType.LONG, "number": DataType.DOUBLE, "string": DataType.STRING}
    value = ObservationAttribute(
        "OBS_VALUE", flow.value, "number" if flow.fractions else "integer", flow.value_description
    )
    described: list[Dimension | ObservationAttribute] = [*flow.dimensions, value, *flow.attributes]
    concepts = [Concept(each.id, name=each.id, description=xml_text(each.description)) for each in described]
    scheme = ConceptScheme(f"CS_{flow.id}", items=concepts, **whole)
    components = []
    for dimension in flow.dimensions:
        codes = None if dimension.codes is None else f"CL_{dimension.id}"
        kind = (DataType.PERIOD if dimension.time else DataType.INTEGER) if codes is None else None
        components.append(_component(dimension.id, flow, Role.DIMENSION, kind, codes))
    components.append(_component(value.id, flow, Role.MEASURE, kinds[value.kind], None))
    for each in flow.attributes:
        codes = "CL_OBS_STATUS" if each.column is None else None
        components.append(_component(each.id, flow, Role.ATTRIBUTE, None if codes else kinds[each.kind], codes))
    definition = DataStructureDefinition(f"DSD_{flow.id}", components=Components(components), **whole)
    return [scheme, definition, Dataflow(flow.id, structure=definition, description=xml_text(flow.text), **whole)]


def _component(name: str, flow: Flow, role: Any, kind: Any, codes: str | None) -> Any:
    from pysdmx.model import Component, ItemReference, Role

    return Component(
        name,
        required=role == Role.DIMENSION or (role == Role.MEASURE and flow.value_role == "value"),
        role=role,
        concept=ItemReference("Concept", flow.agency, f"CS_{flow.id}", VERSION, name),
        local_dtype=kind,
        local_enum_ref=None if codes is None else f"{_CODE_LIST}={flow.agency}:{codes}({VERSION})",
        attachment_level="O" if role == Role.ATTRIBUTE else None,
    )
