import com.example.textclassifier.ModelFiles
import com.example.textclassifier.UnicodeTables
import com.example.textclassifier.WordPiece
import java.io.File
import java.nio.ByteBuffer

/**
 * Runs the Android sample's tokenizer on the JVM, for `tests/project/test_web.py`: a line of ids for each line of stdin, which is a
 * text as hexadecimal code points. A line `mode lowercase stripAccents splitCjk` sets the rules of those behind it.
 *
 * Arguments: the vocabulary; the tables, one `name value` a line; and a model, of which the files' sizes are printed first.
 */
fun main(arguments: Array<String>) {
    val (vocabularyPath, tablesPath, modelPath) = arguments
    val files = ModelFiles.read(ByteBuffer.wrap(File(modelPath).readBytes()))
    println(files.entries.joinToString(" ") { (name, content) -> "$name:${content.toByteArray().size}" })
    val vocabulary = File(vocabularyPath).readText().removeSuffix("\n").split("\n")
    val fields = File(tablesPath).readLines().map { it.substringBefore(' ') to it.substringAfter(' ') }
    val (classes, others) = fields.partition { it.first == "combining_class" }
    val tables = UnicodeTables(others.toMap(), classes.map { it.second })
    var tokenizer = WordPiece(vocabulary, tables)
    for (line in generateSequence(::readLine)) {
        if (line.startsWith("mode ")) {
            val (lowercase, stripAccents, splitCjk) = line.split(' ').drop(1).map(String::toBoolean)
            tokenizer = WordPiece(vocabulary, tables, lowercase, stripAccents, splitCjk)
            continue
        }
        val text = StringBuilder()
        line.split(' ').filter(String::isNotEmpty).forEach { text.appendCodePoint(it.toInt(16)) }
        println(tokenizer.tokenize(text.toString()).joinToString(" "))
    }
}
