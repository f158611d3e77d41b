package com.example.textclassifier

/**
 * What the original BERT takes each character for: `unicode_tables.json` of keras_bert.
 *
 * Android's own tables follow Unicode from release to release, and a model has to see the tokens that it was trained on.
 *
 * @param fields The strings of the file, by name: `drop`, `space`, `cjk`, `punctuation`, `mark`, `lower`, `decomposition`.
 * @param combiningClasses Its list `combining_class`.
 */
class UnicodeTables(fields: Map<String, String>, combiningClasses: List<String>) {
    private val flags = ByteArray(0x110000) // a sum of the constants below, for each code point
    private val ranks = HashMap<Int, Int>() // combining class, as its place among the classes; starters are not in here
    private val lowercase = readMapping(fields.getValue("lower"))
    private val decompositions = readMapping(fields.getValue("decomposition"))

    init {
        val names = mapOf("drop" to DROP, "space" to SPACE, "cjk" to CJK, "punctuation" to PUNCTUATION, "mark" to MARK)
        for ((name, flag) in names) {
            for (code in readCodes(fields.getValue(name))) flags[code] = (flags[code].toInt() or flag).toByte()
        }
        combiningClasses.forEachIndexed { index, codes -> readCodes(codes).forEach { ranks[it] = index + 1 } }
    }

    fun has(code: Int, flag: Int): Boolean = flags[code].toInt() and flag != 0

    /** Its rank among neighbouring marks; 0 for what is no mark. */
    fun rank(code: Int): Int = ranks[code] ?: 0

    fun lower(code: Int): IntArray = lowercase[code] ?: intArrayOf(code)

    /** The canonical decomposition. */
    fun decompose(code: Int): IntArray {
        if (code !in 0xAC00..0xD7A3) return decompositions[code] ?: intArrayOf(code)
        val syllable = code - 0xAC00 // Hangul is composed by arithmetic
        val letters = intArrayOf(0x1100 + syllable / 588, 0x1161 + syllable % 588 / 28)
        return if (syllable % 28 == 0) letters else letters + (0x11A7 + syllable % 28)
    }

    companion object {
        const val DROP = 1
        const val SPACE = 2
        const val CJK = 4
        const val PUNCTUATION = 8
        const val MARK = 16

        /** `41-43 61` → 0x41, 0x42, 0x43, 0x61 */
        private fun readCodes(text: String): Sequence<Int> = text.splitToSequence(' ').flatMap { item ->
            val ends = item.split('-').map { it.toInt(16) }
            (ends.first()..ends.last()).asSequence()
        }

        /** `c0:41+300` → 0xc0 to [0x41, 0x300] */
        private fun readMapping(text: String): Map<Int, IntArray> = text.splitToSequence(' ').associate { item ->
            val (code, parts) = item.split(':')
            code.toInt(16) to parts.split('+').map { it.toInt(16) }.toIntArray()
        }
    }
}

/**
 * BERT's tokenizer: text → ids, equal to the original's on every character.
 *
 * @param vocabulary The tokens in the order of their ids, `[UNK]` among them.
 * @param lowercase, stripAccents, splitCjk As the model was trained.
 */
class WordPiece(
    vocabulary: List<String>,
    private val tables: UnicodeTables,
    private val lowercase: Boolean = true,
    private val stripAccents: Boolean = lowercase,
    private val splitCjk: Boolean = true,
) {
    private val ids = HashMap<String, Int>().apply { vocabulary.forEachIndexed { id, token -> put(token, id) } }
    private val longest = vocabulary.maxOf { it.length }
    private val unknown = idOf("[UNK]")

    fun idOf(token: String): Int =
        requireNotNull(ids[token]) { "The ${ids.size} tokens have no $token; expected BERT's vocabulary." }

    /** The ids of a text, without special tokens; "[SEP]" in a text is text. */
    fun tokenize(text: String): List<Int> = words(normalize(text)).flatMap(::pieces)

    /** Code points after cleaning: no control characters, spaces around CJK, no accents, lowercase. */
    private fun normalize(text: String): List<Int> {
        val codes = ArrayList<Int>(text.length)
        var index = 0
        while (index < text.length) {
            val code = text.codePointAt(index)
            index += Character.charCount(code)
            // Half a surrogate pair is no character.
            if (tables.has(code, UnicodeTables.DROP) || code in 0xD800..0xDFFF) continue
            if (tables.has(code, UnicodeTables.SPACE)) {
                codes.add(BLANK)
                continue
            }
            val isWord = splitCjk && tables.has(code, UnicodeTables.CJK)
            if (isWord) codes.add(BLANK)
            if (stripAccents) tables.decompose(code).forEach(codes::add) else codes.add(code)
            if (isWord) codes.add(BLANK)
        }
        val stripped = if (stripAccents) orderMarks(codes).filterNot { tables.has(it, UnicodeTables.MARK) } else codes
        return if (lowercase) stripped.flatMap { tables.lower(it).asIterable() } else stripped
    }

    /** Canonical ordering: neighbouring marks by their class. */
    private fun orderMarks(codes: MutableList<Int>): List<Int> {
        var start = 0
        while (start < codes.size) {
            var end = start
            while (end < codes.size && tables.rank(codes[end]) > 0) end++
            if (end - start > 1) codes.subList(start, end).sortBy { tables.rank(it) } // stable
            start = end + 1
        }
        return codes
    }

    /** Words, each a list of characters; a punctuation mark is a word. */
    private fun words(codes: List<Int>): List<List<String>> {
        val words = ArrayList<List<String>>()
        var word = ArrayList<String>()
        fun close() {
            if (word.isNotEmpty()) words.add(word)
            word = ArrayList()
        }
        for (code in codes) {
            val isPunctuation = tables.has(code, UnicodeTables.PUNCTUATION)
            if (code == BLANK || isPunctuation) close()
            if (code != BLANK) word.add(String(Character.toChars(code)))
            if (isPunctuation) close()
        }
        close()
        return words
    }

    /** The ids of a word: the longest piece that the vocabulary has, then the longest of the rest with ## before it. */
    private fun pieces(word: List<String>): List<Int> {
        if (word.size > LONGEST_WORD) return listOf(unknown)
        val found = ArrayList<Int>()
        var start = 0
        while (start < word.size) {
            val prefix = if (start == 0) "" else "##"
            var end = minOf(word.size, start + longest)
            var id: Int? = null
            while (end > start && id == null) {
                id = ids[word.subList(start, end).joinToString("", prefix)]
                if (id == null) end--
            }
            found.add(id ?: return listOf(unknown))
            start = end
        }
        return found
    }

    private companion object {
        const val BLANK = 0x20
        const val LONGEST_WORD = 100 // characters; a longer word is one unknown token
    }
}
