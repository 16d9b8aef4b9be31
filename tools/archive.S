/* archive.S - the runtime library as data of qcc. */
    .section .rodata
    .global runtime_archive
    .balign 16
runtime_archive:
    .incbin ARCHIVE
1:
    .global runtime_archive_bytes
    .balign 8
runtime_archive_bytes:
    .quad 1b - runtime_archive
    .section .note.GNU-stack,"",%progbits
