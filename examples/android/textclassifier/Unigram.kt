package com.example.textclassifier

import java.nio.ByteBuffer
import java.nio.ByteOrder

/**
 * The Unigram tokenizer of XLM-R and multilingual MiniLM: SentencePiece's ids.
 *
 * It reads the model that `export.convert` puts into a `.tflite` file, with its table of what characters become; Android's
 * own Unicode is not used.
 *
 * @param model The file `sentencepiece.model`; ids are those of the file.
 */
class Unigram(model: ByteArray) {
    private val tokens = ArrayList<String>()
    private val scores = ArrayList<Float>()
    private val bytes = HashMap<Int, Int>()
    private val prefixes = HashMap<String, Int>() // every beginning of a piece, with the piece that ends there, or -1
    private val ids = HashMap<String, Int>()
    private val unknown: Int
    private val unknownScore: Float
    private val map: CharacterMap
    private val addPrefix: Boolean
    private val stripSpaces: Boolean

    init {
        var trainer = emptyMap<Int, Any>()
        var normalizer = emptyMap<Int, Any>()
        var unk = -1
        var lowest = 0f
        Message(model).fields().forEach { (number, value) ->
            if (number == 2) trainer = Message(value as ByteArray).fields().toMap()
            if (number == 3) normalizer = Message(value as ByteArray).fields().toMap()
            if (number == 1) {
                val piece = Message(value as ByteArray).fields().toMap()
                val token = String(piece.getValue(1) as ByteArray, Charsets.UTF_8)
                val kind = (piece[3] as Long? ?: NORMAL).toInt()
                val score = piece[2] as Float? ?: 0f
                if (kind == UNKNOWN) unk = tokens.size
                if (kind == BYTE) bytes[token.substring(3, 5).toInt(16)] = tokens.size
                if (kind == NORMAL.toInt()) {
                    lowest = minOf(lowest, score)
                    for (end in 1 until token.length) prefixes.getOrPut(token.substring(0, end)) { -1 }
                    prefixes[token] = tokens.size
                }
                ids[token] = tokens.size
                tokens.add(token)
                scores.add(score)
            }
        }
        require((trainer[3] ?: NORMAL) == NORMAL && unk >= 0) { "The file is no Unigram model of SentencePiece." }
        unknown = unk
        unknownScore = lowest - UNKNOWN_PENALTY
        map = CharacterMap(normalizer[2] as ByteArray? ?: ByteArray(0))
        addPrefix = normalizer[3] != 0L
        stripSpaces = normalizer[4] != 0L
    }

    /** The id of a token of the vocabulary, such as `</s>`. */
    fun idOf(token: String): Int = ids.getValue(token)

    /** The ids of a text, without special tokens; `</s>` in a text is text. */
    fun tokenize(text: String): List<Int> {
        val found = ArrayList<Int>()
        var wasUnknown = false
        for ((id, piece) in cut(normalize(text))) {
            if (id == unknown && bytes.isNotEmpty()) {
                piece.toByteArray().forEach { found.add(bytes.getValue(it.toInt() and 0xFF)) }
            } else if (id != unknown || !wasUnknown) { // unknown characters side by side are one token
                found.add(id)
            }
            wasUnknown = id == unknown
        }
        return found
    }

    /** The text after replacing characters, with SPACE for spaces. */
    private fun normalize(text: String): String {
        val chars = text.codePoints().toArray().filter { it !in 0xD800..0xDFFF } // half a pair is no character
        val normalized = StringBuilder()
        var afterSpace = stripSpaces
        var place = 0
        while (place < chars.size) {
            val (whole, size) = map.replace(chars, place)
            val replaced = if (afterSpace) whole.trimStart(' ') else whole
            if (replaced.isNotEmpty()) afterSpace = stripSpaces && replaced.endsWith(" ")
            normalized.append(replaced.replace(' ', SPACE))
            place += size
        }
        if (normalized.isEmpty() && (stripSpaces || chars.isEmpty())) return ""
        if (addPrefix) normalized.insert(0, SPACE)
        return if (stripSpaces) normalized.toString().trimEnd(SPACE) else normalized.toString()
    }

    /** The pieces on the best path, as id and text. Each sum is rounded to float32, as SentencePiece does. */
    private fun cut(text: String): List<Pair<Int, String>> {
        val best = FloatArray(text.length + 1)
        val cameFrom = IntArray(text.length + 1) { -1 }
        val pieces = IntArray(text.length + 1)
        fun improve(start: Int, end: Int, score: Double, id: Int) {
            if (cameFrom[end] >= 0 && score <= best[end]) return
            best[end] = score.toFloat()
            cameFrom[end] = start
            pieces[end] = id
        }
        var start = 0
        while (start < text.length) {
            val next = start + Character.charCount(text.codePointAt(start))
            var isKnown = false
            for (end in start + 1..text.length) {
                val id = prefixes[text.substring(start, end)] ?: break
                if (id < 0) continue
                improve(start, end, best[start].toDouble() + scores[id], id)
                isKnown = isKnown || end == next
            }
            if (!isKnown) improve(start, next, (best[start] + unknownScore).toDouble(), unknown)
            start = next
        }
        val path = ArrayList<Pair<Int, String>>()
        var end = text.length
        while (end > 0) {
            path.add(pieces[end] to text.substring(cameFrom[end], end))
            end = cameFrom[end]
        }
        return path.asReversed()
    }

    private companion object {
        const val NORMAL = 1L
        const val UNKNOWN = 2
        const val BYTE = 6
        const val SPACE = '\u2581' // what stands for a space in a piece
        const val UNKNOWN_PENALTY = 10f // below the lowest score
    }
}

/** What characters become: a trie of byte strings, of which the longest that fits is replaced (a double array). */
private class CharacterMap(content: ByteArray) {
    private val units: IntArray
    private val texts: ByteArray

    init {
        val buffer = ByteBuffer.wrap(content).order(ByteOrder.LITTLE_ENDIAN)
        val size = if (content.isEmpty()) 0 else buffer.getInt()
        require(size in 0..maxOf(0, content.size - 4) && size % 4 == 0) { "The character map of the model is damaged." }
        units = IntArray(size / 4) { buffer.getInt() }
        texts = content.copyOfRange(minOf(content.size, 4 + size), content.size)
    }

    /** What the longest known string at a place becomes, and how many characters it has. */
    fun replace(chars: List<Int>, place: Int): Pair<String, Int> {
        var found = String(Character.toChars(chars[place])) to 1
        if (units.isEmpty()) return found
        var node = offset(units[0])
        for (end in place until chars.size) {
            var unit = 0
            for (byte in String(Character.toChars(chars[end])).toByteArray()) {
                val label = byte.toInt() and 0xFF
                node = node xor label
                if (node !in units.indices || units[node] and 0x800000FF.toInt() != label) return found
                unit = units[node]
                node = node xor offset(unit)
            }
            if (unit ushr 8 and 1 == 1) {
                val begin = units[node] and 0x7FFFFFFF
                val stop = (begin until texts.size).first { texts[it] == 0.toByte() }
                found = String(texts, begin, stop - begin, Charsets.UTF_8) to end - place + 1
            }
        }
        return found
    }

    private fun offset(unit: Int) = unit ushr 10 shl (unit and 0x200 ushr 6)
}

/** A message of Protocol Buffers, which SentencePiece's files are. */
private class Message(content: ByteArray) {
    private val bytes = ByteBuffer.wrap(content).order(ByteOrder.LITTLE_ENDIAN)

    fun fields(): Sequence<Pair<Int, Any>> = sequence {
        while (bytes.hasRemaining()) {
            val key = varint()
            val value: Any = when ((key and 7).toInt()) {
                0 -> varint()
                1 -> bytes.getDouble()
                2 -> ByteArray(varint().toInt()).also { bytes.get(it) }
                5 -> bytes.getFloat()
                else -> throw IllegalArgumentException("The model of SentencePiece is damaged.")
            }
            yield((key ushr 3).toInt() to value)
        }
    }

    private fun varint(): Long {
        var value = 0L
        var shift = 0
        while (true) {
            val byte = bytes.get().toLong()
            value = value or (byte and 0x7F shl shift)
            if (byte >= 0) return value
            shift += 7
        }
    }
}
