"""Checks of descriptions in Croissant: by the library mlcroissant where it is installed, else by required keys."""

import importlib.util
import json

DATA_SET = {"@context", "@type", "conformsTo", "name", "description", "distribution", "recordSet"}
FILE = {"@type", "@id", "name", "contentUrl", "contentSize", "encodingFormat", "sha256"}
FIELD = {"@type", "@id", "name", "description", "dataType", "source"}
RESPONSIBLE_AI = {
    *("rai:dataCollection", "rai:dataCollectionType", "rai:dataUseCases", "rai:dataBiases", "rai:dataLimitations"),
    *("rai:personalSensitiveInformation", "rai:dataAnnotationProtocol", "rai:dataCollectionRawData"),
}


def valid_description(file):
    """The description in a file, which is valid."""
    described = json.loads(file.read_text(encoding="utf-8"))
    assert described.keys() >= DATA_SET | RESPONSIBLE_AI
    assert all(entry.keys() >= FILE for entry in described["distribution"])
    files = {entry["@id"] for entry in described["distribution"]}
    fields = [field for records in described["recordSet"] for field in records["field"]]
    assert fields and all(field.keys() >= FIELD for field in fields)
    assert {field["source"]["fileObject"]["@id"] for field in fields} <= files
    if importlib.util.find_spec("mlcroissant"):
        import mlcroissant

        assert not mlcroissant.Dataset(str(file)).metadata.ctx.issues.errors
    return described
