// app/build.gradle.kts: what the sample needs. Of the two dependencies take the one whose class you use.

plugins {
    id("com.android.application")
    id("org.jetbrains.kotlin.android") // leave it out from Android Gradle plugin 9 on, which has Kotlin built in
}

android {
    namespace = "com.example.textclassifier"
    compileSdk = 36

    defaultConfig {
        applicationId = "com.example.textclassifier"
        minSdk = 28 // MediaPipe's; 24 is enough for LiteRT
        targetSdk = 36
    }

    androidResources {
        noCompress += "tflite" // the default of new plugins; the model is read in place
    }
}

dependencies {
    implementation("com.google.ai.edge.litert:litert:2.3.0") // LiteRtClassifier.kt
    implementation("com.google.mediapipe:tasks-text:1.0.0") // MediaPipeClassifier.kt
}
