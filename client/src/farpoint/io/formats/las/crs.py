"""The coordinate reference system of a LAS file, and the unit of its coordinates."""

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from laspy import LasData

_USER = "LASF_Projection"
_WKT_RECORD, _GEO_KEYS_RECORD = 2112, 34735
# Keys and codes of GeoTIFF.
_MODEL_KEY, _PROJECTED_UNIT_KEY, _PROJECTED_KEY = 1024, 3076, 3072
_UNITS = {9001: "metre", 9002: "foot", 9003: "US survey foot"}
_GEOGRAPHIC = 2
# UTM zones of WGS 84, NAD 83 and ETRS 89: in metres without saying so.
_METRIC_CODES = (range(32601, 32761), range(26901, 26924), range(25828, 25839))


def wkt_of(las: "LasData") -> str | None:
    """The WKT record; None for a file without."""
    for record in _records(las, _WKT_RECORD):
        return str(getattr(record, "string", "")).strip("\0 ") or None
    return None


def unit_of(las: "LasData") -> str | None:
    """What the file says that x and y are in; None where it does not."""
    wkt = wkt_of(las)
    if wkt is not None:
        return unit_of_wkt(wkt)
    for record in _records(las, _GEO_KEYS_RECORD):
        keys = {key.id: key.value_offset for key in getattr(record, "geo_keys", ())}
        if keys.get(_MODEL_KEY) == _GEOGRAPHIC:
            return "degree"
        code = keys.get(_PROJECTED_KEY, 0)
        if _PROJECTED_UNIT_KEY not in keys and any(code in codes for codes in _METRIC_CODES):
            return "metre"
        return _UNITS.get(keys.get(_PROJECTED_UNIT_KEY, 0))
    return None


def unit_of_wkt(wkt: str) -> str | None:
    """The unit of a projected system, "degree" of a geographic one."""
    horizontal = re.split(r",\s*(?:VERT_CS|VERTCRS|VERTCS)\s*\[", wkt)[0]
    if not re.search(r"\b(PROJCS|PROJCRS)\s*\[", horizontal):
        return "degree" if re.search(r"\b(GEOGCS|GEOGCRS)\s*\[", horizontal) else None
    units: list[str] = re.findall(r'\b(?:LENGTH)?UNIT\s*\[\s*"([^"]+)"', horizontal)
    return units[-1].replace("meter", "metre") if units else None


def _records(las: "LasData", number: int) -> list[Any]:
    records = (*las.header.vlrs, *(las.evlrs or ()))
    return [r for r in records if (r.user_id, r.record_id) == (_USER, number)]
