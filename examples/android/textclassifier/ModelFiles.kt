package com.example.textclassifier

import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.charset.Charset

/**
 * The files behind a `.tflite` model, by name, as text: vocabulary, labels and settings.
 *
 * They are in an uncompressed zip archive that begins where the model ends. Android's `ZipFile` wants archives that begin
 * with a file, so this reads the directory at the end by itself.
 */
object ModelFiles {
    private const val LAST_RECORD = 22 // bytes
    private const val MOST_FILES = 16

    /** The model of a Unigram tokenizer, the only file that is no text. */
    const val UNIGRAM = "sentencepiece.model"

    /** The files as text; the bytes of the Unigram model are its characters (ISO 8859-1). */
    fun read(model: ByteBuffer): Map<String, String> {
        val bytes = model.duplicate().order(ByteOrder.LITTLE_ENDIAN)
        val end = bytes.limit() - LAST_RECORD
        require(end > 0 && bytes.getInt(4) == 0x334C4654) { "This is not a TFLite file, which has TFL3 at byte 4." }
        require(bytes.getInt(end) == 0x06054B50) {
            "There are no files behind the model; expected a file that export.convert wrote from a task."
        }
        val count = bytes.short(end + 10)
        require(count <= MOST_FILES) { "The archive claims $count files; expected at most $MOST_FILES." }
        val files = LinkedHashMap<String, String>()
        try {
            var at = bytes.getInt(end + 16)
            repeat(count) { at = readEntry(bytes, at, files) }
        } catch (error: IndexOutOfBoundsException) {
            throw IllegalArgumentException("The files behind the model are damaged.", error)
        }
        return files
    }

    /** Reads the file that a record of the archive's directory speaks of; gives the place of the next record. */
    private fun readEntry(bytes: ByteBuffer, at: Int, files: MutableMap<String, String>): Int {
        val nameLength = bytes.short(at + 28)
        val name = bytes.text(at + 46, nameLength)
        val isPlain = bytes.short(at + 10) == 0 && bytes.short(at + 8) and 1 == 0
        require(bytes.getInt(at) == 0x02014B50 && isPlain) { "$name is compressed; expected it as it is." }
        val local = bytes.getInt(at + 42)
        val begin = local + 30 + bytes.short(local + 26) + bytes.short(local + 28)
        val encoding = if (name == UNIGRAM) Charsets.ISO_8859_1 else Charsets.UTF_8
        files[name] = bytes.text(begin, bytes.getInt(at + 24), encoding)
        return at + 46 + nameLength + bytes.short(at + 30) + bytes.short(at + 32)
    }

    private fun ByteBuffer.short(at: Int) = getShort(at).toInt() and 0xFFFF

    private fun ByteBuffer.text(at: Int, size: Int, encoding: Charset = Charsets.UTF_8): String {
        if (at < 0 || size < 0 || size > limit() - at) throw IndexOutOfBoundsException("$size bytes at $at")
        val content = ByteArray(size)
        (duplicate().position(at) as ByteBuffer).get(content)
        return String(content, encoding)
    }
}
