"""The questions of auditors, asked of Perdure and of an archive of session blobs with the same long history."""
