"""Audits: run a mechanism many times on neighboring inputs and bound its privacy loss from below."""

from tallytree.lab.audit.auditing import Subject, audit, audit_subject
from tallytree.lab.audit.confidence_bounds import clopper_pearson
from tallytree.lab.audit.exact import exact_delta, exact_loss
from tallytree.lab.audit.library import audit_mechanism
from tallytree.lab.audit.result import AuditResult

__all__ = [
    "AuditResult",
    "Subject",
    "audit",
    "audit_mechanism",
    "audit_subject",
    "clopper_pearson",
    "exact_delta",
    "exact_loss",
]
