"""Audits: run a mechanism many times on neighboring inputs and bound its privacy loss from below."""

from tallytree.audit.auditing import Subject, audit, audit_subject
from tallytree.audit.confidence_bounds import clopper_pearson
from tallytree.audit.exact import exact_delta, exact_loss
from tallytree.audit.result import AuditResult

__all__ = ["AuditResult", "Subject", "audit", "audit_subject", "clopper_pearson", "exact_delta", "exact_loss"]
