"""What others' tools say of the box's HTTPS: `make audit-tls`, kept in docs/audit/."""
